"""Projects over HTTP: who may write them, and streams of saves that remember what was acknowledged."""

import http.client
import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from support import PATIENCE, eventually
from support.client import Client, Reply, ask
from support.servers import Server
from support.tokens import line, token


@dataclass(frozen=True)
class Writer:
    """Somebody with a token that may write."""

    token: str
    file: Path

    @classmethod
    def new(cls, folder: Path) -> Self:
        """One whose token is in a new file in this folder."""
        made = cls(token(), folder / "tokens")
        made.file.write_text(line("writer", made.token))
        return made

    def flags(self) -> list[str]:
        """What tells the server of the token."""
        return ["--auth.tokens", str(self.file)]

    def headers(self, **more: str) -> dict[str, str]:
        """What a write needs: `if_match` becomes If-Match."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        sent = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        return sent | named

    def save(self, server: Server, document: dict, path: str = "/projects") -> Reply:
        """Creates a project, or replaces the one at the path."""
        method = "POST" if path == "/projects" else "PUT"
        body = json.dumps(document).encode()
        return ask(server.url, path, method, body=body, headers=self.headers())


def database_line(server: Server) -> str:
    """What the readiness page says of the database; empty while it is up."""
    lines = ask(server.admin, "/readyz").body.decode().splitlines()
    return "".join(each for each in lines if each.startswith("database:"))


def connected(server: Server) -> None:
    """Waits until the server finds its database up."""
    eventually(lambda: not database_line(server), "a database that is up")


def lists(server: Server) -> int:
    """The status of a read."""
    return ask(server.url, "/projects").status


def document(random_source: random.Random, size: int = 5000) -> dict:
    """A project of about this many bytes as JSON, unlike any other."""
    notes = "".join(random_source.choices("abcdefghij klmnop", k=size // 10))
    tasks = [{"title": f"{n} {notes[:100]}", "done": n % 2 == 0} for n in range(size // 150)]
    return {"name": f"p{random_source.getrandbits(64)}", "description": notes, "tasks": tasks}


PAUSE = 0.02
"""Seconds before a client that was refused tries again: it leaves the CPUs to whoever starts."""


@dataclass
class Saves:
    """Clients that save one after the other, each time a new document.

    `stored` holds for each project that was acknowledged what it may hold now: the document of the
    last acknowledgement, and those of later saves that were not acknowledged, which may have taken
    place or not. As a context manager it ends with every client's last save.
    """

    url: Callable[[], str]
    writer: Writer
    clients: int = 4
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

    def more(self, count: int) -> None:
        """Waits for so many acknowledgements beyond those so far."""
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
                # The server was killed: whether this was saved is not known.
                self._note(path, saved, None)
                client.close()
                client = Client(self.url())
                path = "/projects"
                self._stop.wait(PAUSE)
                continue
            self._note(path, saved, reply)
            path = reply.headers.get("location", path)
            refused = reply.status not in (200, 201)
            # Every third save or so is of a new project.
            if refused or source.random() < 0.3:
                path = "/projects"
            if refused:
                self._stop.wait(PAUSE)

    def _note(self, path: str, saved: dict, reply: Reply | None) -> None:
        with self._lock:
            if reply is not None and reply.status in (200, 201):
                self.acknowledged += 1
                self.stored[reply.headers.get("location", path)] = [saved]
                return
            if path in self.stored:
                self.stored[path].append(saved)
            if reply is None or reply.status == 503:
                self.refused += 1
            else:
                self.unexpected.append(f"{reply.status} {reply.body[:200]!r}")

    def check(self, server: Server) -> None:
        """Every acknowledged project is there, with a document that it may hold."""
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
