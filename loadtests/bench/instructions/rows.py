"""Rows of the table: request, expected response, and instruction limit."""

import json
import platform
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment.servers import Pem, certificate
from loadtests.bench.instructions.exchange import Client, Connect, Http1, Http2, Reply
from loadtests.bench.instructions.server import TOKEN, Settings, counted, trusting
from tools import resolve
from tools.errors import ToolError

FILE = Path(__file__).with_name("budget.toml")

LIMIT = 1.03

HEAD = '# Written by `make bench BENCH="instructions --update"`; `make check-instructions` compares with it.'


@dataclass(frozen=True)
class Budget:
    toolchain: Mapping[str, str]
    instructions: Mapping[str, int]

    @classmethod
    def read(cls, file: Path) -> "Budget":
        return cls(**tomllib.loads(file.read_text()))

    def write(self, file: Path) -> None:
        versions = [f'{name} = "{version}"' for name, version in self.toolchain.items()]
        rows = [f'"{name}" = {count}' for name, count in self.instructions.items()]
        lines = [HEAD, "[toolchain]", *versions, "", "[instructions]", *rows]
        file.write_text("\n".join(lines) + "\n")

    def fits(self, name: str, count: int) -> bool:
        """Whether a row is within its limit; a row that is missing from the table is not."""
        known = self.instructions.get(name)
        return known is not None and count <= LIMIT * known

    def other_toolchain(self, versions: Mapping[str, str]) -> list[str]:
        return [
            f"{name} {versions.get(name)} where the table has {version}"
            for name, version in self.toolchain.items()
            if versions.get(name) != version
        ]


def toolchain() -> dict[str, str]:
    """Versions of rustc, of the C compiler for allocator and database, and of the C library."""
    return {
        "rustc": _version("rustc", "--version"),
        "cc": _version("cc", "-dumpfullversion"),
        "glibc": platform.libc_ver()[1],
    }


def _version(*argv: str) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return re.search(r"\d+(\.\d+)+", result.stdout)[0]


def unfit() -> str:
    """Reason why the table does not apply to this machine, if it does not."""
    if platform.machine() != "x86_64":
        return f"the table is of x86-64, this machine is {platform.machine()}"
    if not re.search(r"^flags\b.* avx2\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
        return "the table is of CPUs with AVX2, which this one lacks"
    return ""


BODY = 5_700


def request(target: str, *fields: str, method: str = "GET", body: str = "") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: bench", *fields]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", body]).encode()


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    status: int
    ask: Callable[[Client], bytes]
    """Creates the request; may first request the object that it names."""
    body: bytes | None = None
    """The body of each response, if it is short."""
    connect: Connect = Http1
    settings: Settings = field(default_factory=Settings)
    together: int = 1
    kept: bool = True
    threads: bool = False

    def is_right(self, reply: Reply) -> bool:
        return reply.status == self.status and self.body in (None, reply.body)


def _plain(name: str, what: str, asked: bytes, status: int = 200, **more: object) -> Row:
    return Row(name, what, status, lambda _client: asked, **more)


def _unchanged(client: Client) -> bytes:
    """A conditional request for the 4 KiB file, with its current ETag."""
    (reply,) = client.ask(request("/static/4k.txt"))
    return request("/static/4k.txt", f"If-None-Match: {_field(reply, 'etag')}")


def _project(client: Client) -> bytes:
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

# RFC 7541: entries 2, 6, 4 and 1 of the static table; the values of the last two are never indexed.
HELLO_BLOCK = b"\x82\x86\x04\x06/hello\x01\x05bench"

DATABASE = Settings(database=True)

EXPENSIVE = Settings(database=True, slowly=True)
"""A lane starts cheap requests immediately, and expensive requests wait for their turns. The lane
measures which requests are cheap, and under callgrind, loading a project may count as either.
Because the count is slowed down, this request waits for its turn on every machine.
"""

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
    _plain(
        "hello on a mutual TLS connection each",
        "with a full handshake, in which the client has a certificate, too",
        HELLO,
        body=HELLO_BODY,
        connect=lambda port, lane: Http1(port, lane, trusting()),
        settings=Settings(tls=True, mutual=True),
        kept=False,
    ),
    _plain("div", "`GET /div/4`", request("/div/4"), body=b"2"),
    _plain("work", "`GET /work?ops=1`", request("/work?ops=1"), body=b"6c576fac43fd007c\n"),
    _plain("file-4k", "`GET /static/4k.txt`", request("/static/4k.txt")),
    _plain(
        "file-4k TLS",
        "TLS 1.3",
        request("/static/4k.txt"),
        connect=lambda port, lane: Http1(port, lane, trusting()),
        settings=Settings(tls=True),
    ),
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
"""Row names contain no comma, because --only separates names by commas."""


SHORT = 200
"""Requests of the shorter run: both runs include the work that happens only in a row's first
requests.
"""


@dataclass(frozen=True)
class Programs:
    """The counting tool, the counted program, and a certificate with its key for TLS."""

    valgrind: Path
    server: Path
    pem: Pem


@contextmanager
def with_tools(server: Path) -> Iterator[Programs]:
    found = resolve.ensure(["valgrind", "openssl"])
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        yield Programs(found["valgrind"], server, certificate(found["openssl"], Path(name)))


def per_request(shorter: Sequence[int], longer: Sequence[int], requests: int) -> int:
    """Instructions per request. Disturbances only add instructions, so the lowest count of each
    length is the most accurate.
    """
    return round((min(longer) - min(shorter)) / requests)


def instructions(row: Row, programs: Programs, requests: int) -> int:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with counted(
            programs.valgrind, programs.server, row.settings, programs.pem, folder
        ) as server:
            client = row.connect(server.port, server.lane)
            if row.settings.mutual:
                client.tls.load_cert_chain(*programs.pem)
            asked = row.ask(client)
            for _ in range(requests // row.together):
                for reply in client.ask(asked, row.together):
                    if not row.is_right(reply):
                        raise ToolError(f"{row.name}: {reply.head!r} {reply.body[:100]!r}")
                if not row.kept:
                    client.close()
            client.close()
    return server.on_lane + (server.beside if row.threads else 0)
