"""The rows of the table: what is asked, and what must come back."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from loadtests.bench.instructions.exchange import Client, Connect, Http1, Http2, Reply
from loadtests.bench.instructions.server import TOKEN, Settings, trusting
from tools.errors import ToolError

BODY = 5_700
"""Bytes of a project, as in the benchmark `mixed`."""


def request(target: str, *fields: str, method: str = "GET", body: str = "") -> bytes:
    """A request of HTTP/1.1."""
    lines = [f"{method} {target} HTTP/1.1", "Host: bench", *fields]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", body]).encode()


@dataclass(frozen=True)
class Row:
    """Requests that are alike, one after the other."""

    name: str
    what: str
    status: int
    ask: Callable[[Client], bytes]
    """Makes the request; may first request what it names."""
    body: bytes | None = None
    """The body of each reply, where it is short."""
    connect: Connect = Http1
    settings: Settings = field(default_factory=Settings)
    together: int = 1
    """Requests that are sent in one write."""
    kept: bool = True
    """Whether the connection is kept for the next."""
    threads: bool = False
    """Whether the lane's threads for code that blocks have a part in it."""

    def is_right(self, reply: Reply) -> bool:
        """Whether that is the reply."""
        return reply.status == self.status and self.body in (None, reply.body)


def _plain(name: str, what: str, asked: bytes, status: int = 200, **more: object) -> Row:
    return Row(name, what, status, lambda _client: asked, **more)


def _unchanged(client: Client) -> bytes:
    """The 4 KiB file, if it is not the one that the client has."""
    (reply,) = client.ask(request("/static/4k.txt"))
    return request("/static/4k.txt", f"If-None-Match: {_field(reply, 'etag')}")


def _project(client: Client) -> bytes:
    """A project that was made for it."""
    tasks = [{"title": f"task {number}", "notes": "x" * 650} for number in range(8)]
    body = json.dumps({"name": "instructions", "tasks": tasks})
    body = body[:-1] + " " * (BODY - len(body)) + "}"
    token = f"Authorization: Bearer {TOKEN}"
    made = request("/projects", token, "Content-Type: application/json", method="POST", body=body)
    (reply,) = client.ask(made)
    if reply.status != 201:
        raise ToolError(f"the project was not taken: {reply.body.decode()}")
    return request(_field(reply, "location"))


def _field(reply: Reply, name: str) -> str:
    lines = [line.partition(": ") for line in reply.head.decode().split("\r\n")[1:]]
    return next(value for key, _, value in lines if key == name)


HELLO, HELLO_BODY = request("/hello"), b"Hello, World!"

GATEWAY = request(
    "/hello",
    "User-Agent: curl/8.5.0",
    "Accept: */*",
    "X-Forwarded-For: 192.0.2.7",
    "X-Forwarded-Proto: https",
    "X-Request-Id: 3f2a8c1e-5b7d-4e90-8a6b-0c1d2e3f4a5b",
    "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
)

# RFC 7541: entries 2, 6, 4 and 1 of the static table, the last two with a value that no table keeps.
HELLO_BLOCK = b"\x82\x86\x04\x06/hello\x01\x05bench"

DATABASE = Settings(database=True)

EXPENSIVE = Settings(database=True, slowly=True)
"""A lane starts cheap requests at once, and others wait for their turn. It measures which are cheap, and a load of a
project may be either under callgrind: counted more slowly, it waits for its turn on every machine."""

ROWS = (
    _plain("hello", "`GET /hello`", HELLO, body=HELLO_BODY),
    _plain("hello 16 pipelined", "16 of it in one write", HELLO * 16, body=HELLO_BODY, together=16),
    _plain("hello from a gateway", "with the seven fields of a proxy", GATEWAY, body=HELLO_BODY),
    _plain("hello HTTP/2", "a stream each", HELLO_BLOCK, body=HELLO_BODY, connect=Http2),
    _plain(
        "hello TLS",
        "TLS 1.3",
        HELLO,
        body=HELLO_BODY,
        connect=lambda port, lane: Http1(port, lane, trusting()),
        settings=Settings(tls=True),
    ),
    _plain("hello on a connection each", "accepted and closed", HELLO, body=HELLO_BODY, kept=False),
    _plain("div", "`GET /div/4`", request("/div/4"), body=b"2"),
    _plain("work", "`GET /work?ops=1`", request("/work?ops=1"), body=b"6c576fac43fd007c\n"),
    _plain("file-4k", "`GET /static/4k.txt`", request("/static/4k.txt")),
    Row("file-4k unchanged", "with the file's ETag: 304", 304, _unchanged, body=b""),
    _plain("not found", "`GET /nothing`", request("/nothing"), 404),
    Row(
        "project",
        f"a document of {BODY:,} bytes from SQLite, by another thread than the lane",
        200,
        _project,
        settings=EXPENSIVE,
        threads=True,
    ),
    _plain(
        "project without token",
        "a `POST` with a body, refused: 401",
        request("/projects", "Content-Type: application/json", method="POST", body='{"name": "x"}'),
        401,
        settings=DATABASE,
    ),
)
"""By their names, which the table keeps; --only takes several with commas between, so no name has one."""
