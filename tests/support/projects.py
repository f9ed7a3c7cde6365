"""Projects over HTTP: servers that keep them in SQLite, and a client that may change them."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from support import tokens
from support.client import Client, Reply

TOKEN = tokens.token()


@dataclass(frozen=True)
class Database:
    """A folder with a database file and a file of tokens."""

    folder: Path

    @property
    def path(self) -> Path:
        """The database file."""
        return self.folder / "projects.db"

    def flags(self) -> list[str]:
        """What makes a server keep its projects here, and take `TOKEN`."""
        file = self.folder / "tokens"
        file.write_text(tokens.line("tests", TOKEN))
        return ["--database.path", str(self.path), "--auth.tokens", str(file)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps every other writer waiting."""
        connection = self.connect()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.close()

    def connect(self) -> sqlite3.Connection:
        """A connection of the test's own."""
        return sqlite3.connect(self.path, isolation_level=None, timeout=20)

    def rows(self) -> dict[str, dict]:
        """Every document by its id, as the file holds it; the file must be sound."""
        connection = self.connect()
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            rows = connection.execute("SELECT lower(hex(id)), document FROM projects").fetchall()
            return {key: json.loads(document) for key, document in rows}
        finally:
            connection.close()


class Projects:
    """One connection to a server, with a token."""

    def __init__(self, url: str, token: str | None = TOKEN) -> None:
        self._client = Client(url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Sends one request; a body that is no bytes is sent as JSON."""
        all_headers = self._headers | dict(headers or {})
        if body is not None:
            all_headers = {"Content-Type": "application/json"} | all_headers
            body = (
                body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
            )
        return self._client.ask(path, method, body=body, headers=all_headers)

    def create(self, document: Mapping[str, object]) -> dict:
        """Makes a project; the project as the server tells it."""
        reply = self.ask("/projects", "POST", document)
        assert reply.status == 201, reply
        return json.loads(reply.body)

    def page(self, **query: object) -> dict:
        """A page of the list."""
        reply = self.ask(f"/projects?{urlencode(query)}")
        assert reply.status == 200, reply
        return json.loads(reply.body)

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()


def path(project: Mapping[str, object]) -> str:
    """Where a project is."""
    return f"/projects/{project['id']}"


def key(project: Mapping[str, object]) -> str:
    """A project's id as `Database.rows` has it."""
    return str(project["id"]).replace("-", "")


def whole(name: str = "whole") -> dict:
    """A document with every member, of about 5 kB."""
    tasks = [{"title": f"task {n}", "done": n % 2 == 0, "notes": "n" * 150} for n in range(22)]
    return {
        "name": name,
        "description": "é" * 300,
        "status": "active",
        "tags": ["one", "two"],
        "tasks": tasks,
    }


def problem(reply: Reply, status: int, slug: str) -> dict:
    """The members of a problem document, which is of this status and type."""
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/problem+json"
    members = json.loads(reply.body)
    assert members["type"] == f"urn:corelane:problem:{slug}"
    assert members["status"] == status
    return members
