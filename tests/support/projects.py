"""Projects over HTTP: servers that store them in SQLite, a client that may change them, and streams of saves.

A stream remembers the acknowledged saves.
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
"""Flags for servers whose requests wait for a lock of the test: no time limit ends the wait, however slow the
machine is.
"""


@dataclass(frozen=True)
class Database:
    """A folder with a database file and a file of tokens."""

    folder: Path

    @property
    def path(self) -> Path:
        """Returns the database file."""
        return self.folder / "projects.db"

    def flags(self) -> list[str]:
        """Returns flags with which a server stores its projects here and accepts `TOKEN`."""
        file = self.folder / "tokens"
        file.write_text(credentials.line("tests", TOKEN))
        return ["--database.path", str(self.path), "--auth.tokens", str(file)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Makes every other writer wait."""
        connection = self.connect()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.close()

    def connect(self) -> sqlite3.Connection:
        """Opens a connection of the test."""
        return sqlite3.connect(self.path, isolation_level=None, timeout=PATIENCE)

    def rows(self) -> dict[str, dict]:
        """Returns every document in the file by its ID; checks that the file is sound."""
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
        """Sends one request; a body other than bytes is sent as JSON."""
        all_headers = self._headers | dict(headers or {})
        if body is not None:
            all_headers = {"Content-Type": "application/json"} | all_headers
            body = (
                body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
            )
        return self._client.ask(path, method, body=body, headers=all_headers)

    def create(self, document: Mapping[str, object]) -> dict:
        """Creates a project; returns it from the server's response."""
        reply = self.ask("/projects", "POST", document)
        assert reply.status == 201, reply
        return json.loads(reply.body)

    def page(self, **query: object) -> dict:
        """Returns a page of the list."""
        reply = self.ask(f"/projects?{urlencode(query)}")
        assert reply.status == 200, reply
        return json.loads(reply.body)

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()


def path(project: Mapping[str, object]) -> str:
    """Returns a project's path."""
    return f"/projects/{project['id']}"


def key(project: Mapping[str, object]) -> str:
    """Returns a project's ID in the format of `Database.rows`."""
    return str(project["id"]).replace("-", "")


def whole(name: str = "whole") -> dict:
    """Returns a document with every member, of about 5 kB."""
    tasks = [{"title": f"task {n}", "done": n % 2 == 0, "notes": "n" * 150} for n in range(22)]
    return {
        "name": name,
        "description": "é" * 300,
        "status": "active",
        "tags": ["one", "two"],
        "tasks": tasks,
    }


def problem(reply: Reply, status: int, slug: str) -> dict:
    """Returns the members of a problem document, and checks its status and type."""
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/problem+json"
    members = json.loads(reply.body)
    assert members["type"] == f"urn:corelane:problem:{slug}"
    assert members["status"] == status
    return members


@dataclass(frozen=True)
class Writer:
    """A user whose token allows writing."""

    token: str
    file: Path

    @classmethod
    def new(cls, folder: Path) -> Self:
        """Creates a writer whose token is in a new file in this folder."""
        made = cls(token(), folder / "tokens")
        made.file.write_text(line("writer", made.token))
        return made

    def flags(self) -> list[str]:
        """Returns the flags that configure the server with the token."""
        return ["--auth.tokens", str(self.file)]

    def headers(self, **more: str) -> dict[str, str]:
        """Returns the headers of a write: `if_match` becomes If-Match."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        sent = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        return sent | named

    def save(self, server: Server, document: dict, path: str = "/projects") -> Reply:
        """Creates a project, or replaces the project at the path."""
        method = "POST" if path == "/projects" else "PUT"
        body = json.dumps(document).encode()
        return ask(server.url, path, method, body=body, headers=self.headers())


def database_line(server: Server) -> str:
    """Returns the database line of the readiness page; empty while the database is up."""
    lines = ask(server.admin, "/readyz").body.decode().splitlines()
    return "".join(each for each in lines if each.startswith("database:"))


def connected(server: Server) -> None:
    """Waits until every lane considers the database up: the page shows the line while it is down for any lane."""
    eventually(lambda: not database_line(server), "a database that is up")


def lists(server: Server) -> int:
    """Returns the status of a read."""
    return ask(server.url, "/projects").status


def document(random_source: random.Random, size: int = 5000) -> dict:
    """Returns a unique project of about this many bytes as JSON."""
    notes = "".join(random_source.choices("abcdefghij klmnop", k=size // 10))
    tasks = [{"title": f"{n} {notes[:100]}", "done": n % 2 == 0} for n in range(size // 150)]
    return {"name": f"p{random_source.getrandbits(64)}", "description": notes, "tasks": tasks}


PAUSE = 0.02
"""Seconds before a rejected client retries, which leaves the CPUs to starting processes."""


@dataclass
class Saves:
    """Clients that save one document at a time, always a new one.

    `stored` contains the possible documents of each acknowledged project. These are the last acknowledged
    document, and those of later saves without acknowledgement, which may or may not have happened. As a context
    manager, it ends with every client's last save.
    """

    url: Callable[[], str]
    writer: Writer
    clients: int = 4
    pause: float = 0.0
    """Seconds between two saves of a client."""

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
        """Waits until one more save is rejected, or ends with its connection."""
        wanted = self.refused + 1
        eventually(lambda: self.refused >= wanted, "a save that fails")

    def more(self, count: int) -> None:
        """Waits for this many additional acknowledgements."""
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
                # The server was killed, so this save may or may not have happened.
                self._note(path, saved, None)
                client.close()
                client = Client(self.url())
                path = "/projects"
                self._stop.wait(PAUSE)
                continue
            self._note(path, saved, reply)
            path = reply.headers.get("location", path)
            refused = reply.status not in (200, 201)
            # About every third save creates a project.
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
        """Asserts that every acknowledged project exists with one of its possible documents."""
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
