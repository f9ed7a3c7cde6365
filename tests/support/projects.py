"""Projects over HTTP: SQLite servers, an authorised client, and streams of saves.

A stream remembers acknowledged saves.
"""

import http.client
import json
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from stack import PATIENCE, credentials, eventually
from stack.credentials import line, token
from stack.http import Client, Reply, ask
from stack.replica import Server

TOKEN = credentials.token()

PATIENT = ("--database.wait", "1h", "--database.statement-timeout", "1h")
"""Requests wait for the test's lock without a timeout."""


@dataclass(frozen=True)
class Database:
    """Folder with database and token file."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "projects.db"

    def flags(self) -> list[str]:
        """Server flags for this database and `TOKEN`."""
        file = self.folder / "tokens"
        file.write_text(credentials.line("tests", TOKEN))
        return ["--database.path", str(self.path), "--auth.tokens", str(file)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        connection = self.connect()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.close()

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, timeout=PATIENCE)

    def rows(self) -> dict[str, dict]:
        """Returns all documents by ID, and checks the database's integrity."""
        connection = self.connect()
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            rows = connection.execute("SELECT lower(hex(id)), document FROM projects").fetchall()
            return {key: json.loads(document) for key, document in rows}
        finally:
            connection.close()


class Projects:
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
        """Bodies other than bytes are sent as JSON."""
        all_headers = self._headers | dict(headers or {})
        if body is not None:
            all_headers = {"Content-Type": "application/json"} | all_headers
            body = (
                body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
            )
        return self._client.ask(path, method, body=body, headers=all_headers)

    def create(self, document: Mapping[str, object]) -> dict:
        reply = self.ask("/projects", "POST", document)
        assert reply.status == 201, reply
        return json.loads(reply.body)

    def page(self, **query: object) -> dict:
        reply = self.ask(f"/projects?{urlencode(query)}")
        assert reply.status == 200, reply
        return json.loads(reply.body)

    def close(self) -> None:
        self._client.close()


def path(project: Mapping[str, object]) -> str:
    return f"/projects/{project['id']}"


def key(project: Mapping[str, object]) -> str:
    return str(project["id"]).replace("-", "")


def whole(name: str = "whole") -> dict:
    """A document of about 5 kB with all fields."""
    tasks = [{"title": f"task {n}", "done": n % 2 == 0, "notes": "n" * 150} for n in range(22)]
    return {
        "name": name,
        "description": "é" * 300,
        "status": "active",
        "tags": ["one", "two"],
        "tasks": tasks,
    }


def problem(reply: Reply, status: int, slug: str) -> dict:
    """Checks status and type; returns the problem's members."""
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/problem+json"
    members = json.loads(reply.body)
    assert members["type"] == f"urn:corelane:problem:{slug}"
    assert members["status"] == status
    return members


@dataclass(frozen=True)
class Writer:
    """A client with a token for writing."""

    token: str
    file: Path

    @classmethod
    def new(cls, folder: Path) -> Self:
        """Stores a new token in this folder."""
        made = cls(token(), folder / "tokens")
        made.file.write_text(line("writer", made.token))
        return made

    def flags(self) -> list[str]:
        """Server flags for the token."""
        return ["--auth.tokens", str(self.file)]

    def headers(self, **more: str) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in more.items()}
        sent = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        return sent | named

    def save(self, server: Server, document: dict, path: str = "/projects") -> Reply:
        """Creates a project, or replaces the one at `path`."""
        method = "POST" if path == "/projects" else "PUT"
        body = json.dumps(document).encode()
        return ask(server.url, path, method, body=body, headers=self.headers())


def database_line(server: Server) -> str:
    """Readiness line about the database; empty while it is up."""
    lines = ask(server.admin, "/readyz").body.decode().splitlines()
    return "".join(each for each in lines if each.startswith("database:"))


def connected(server: Server) -> None:
    """Waits for all lanes, because the line is shown while any lane is disconnected."""
    eventually(lambda: not database_line(server), "a database that is up")


def lists(server: Server) -> int:
    return ask(server.url, "/projects").status


def document(random_source: random.Random, size: int = 5000) -> dict:
    """Unique JSON of about this size."""
    notes = "".join(random_source.choices("abcdefghij klmnop", k=size // 10))
    tasks = [{"title": f"{n} {notes[:100]}", "done": n % 2 == 0} for n in range(size // 150)]
    return {"name": f"p{random_source.getrandbits(64)}", "description": notes, "tasks": tasks}


PAUSE = 0.02
"""Retry delay, which leaves CPU time to starting processes."""


@dataclass
class Saves:
    """Clients that each keep saving new documents.

    `stored` maps acknowledged projects to possible documents: the last acknowledged one, and later
    ones without acknowledgement. Leaving the context waits for the last saves.
    """

    url: Callable[[], str]
    writer: Writer
    clients: int = 4
    pause: float = 0.0

    seed: int = 1
    stored: dict[str, list[dict]] = field(default_factory=dict)
    acknowledged: int = 0
    refused: int = 0
    unexpected: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(self.seed + n),), daemon=True)
            for n in range(self.clients)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def fail(self) -> None:
        """Waits for one more failed save."""
        wanted = self.refused + 1
        eventually(lambda: self.refused >= wanted, "a save that fails")

    def more(self, count: int) -> None:
        wanted = self.acknowledged + count
        what = f"{count} more acknowledged saves"
        eventually(lambda: self.acknowledged >= wanted, what, patience=3 * PATIENCE)

    def _run(self, source: random.Random) -> None:
        path = "/projects"
        client = Client(self.url())
        while not self._stop.is_set():
            saved = document(source)
            method = "POST" if path == "/projects" else "PUT"
            body = json.dumps(saved).encode()
            try:
                reply = client.ask(path, method, body, self.writer.headers())
            except (OSError, http.client.HTTPException):
                # The server was killed; the save may have happened.
                self._note(path, saved, None)
                client.close()
                client = Client(self.url())
                path = "/projects"
                self._stop.wait(PAUSE)
                continue
            self._note(path, saved, reply)
            path = reply.headers.get("location", path)
            refused = reply.status not in (200, 201)
            # A third of the saves create projects.
            if refused or source.random() < 0.3:
                path = "/projects"
            self._stop.wait(max(self.pause, PAUSE) if refused else self.pause)

    def _note(self, path: str, saved: dict, reply: Reply | None) -> None:
        with self._lock:
            if reply is not None and reply.status in (200, 201):
                self.acknowledged += 1
                self.stored[reply.headers.get("location", path)] = [saved]
                return
            if path in self.stored:
                self.stored[path].append(saved)
            if reply is None or reply.status in (503, 504):
                self.refused += 1
            else:
                self.unexpected.append(f"{reply.status} {reply.body[:200]!r}")

    def check(self, server: Server) -> None:
        """Every acknowledged project has one of its possible documents."""
        assert self.unexpected == []
        client = Client(server.url)
        for path, allowed in self.stored.items():
            reply = client.ask(path)
            assert reply.status == 200, (path, reply.body)
            found = json.loads(reply.body)
            for added in ("id", "version", "created", "updated"):
                del found[added]
            assert found in allowed, path
        client.close()
