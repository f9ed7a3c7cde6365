"""Every contender of `bench field` answers as corelane-server does: what is compared does the same work.

Here those are asked whose program is there, built from the sources as they are; `make bench` builds all.
"""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from loadtests.bench.experiment import builds
from loadtests.bench.field import stand
from loadtests.bench.field.contender import (
    C10K,
    DIV,
    FILE_4K,
    FILES,
    HELLO,
    STATIC,
    WORK,
    Contender,
    first_of,
)
from loadtests.bench.field.contenders import CONTENDERS
from stack.http import Reply, ask
from support import raw
from tools import command
from tools.errors import ToolError

FLOOR, REFERENCE = "floor", "corelane-server"

PEERS = builds.BENCH / "peers"

RUST = ("hyper", "may_minihttp", "actix_web", "ntex", "axum")
"""Programs that cargo builds here."""


class Field:
    """The contenders that tests ask, each started when it is first asked for."""

    def __init__(self, binary: Path, stack: ExitStack) -> None:
        self._binary = binary
        self._stack = stack
        self._urls: dict[str, str] = {}

    def url(self, contender: Contender) -> str:
        """Where it answers."""
        if contender.name not in self._urls:
            start = stand.started(contender, self._program(contender), cpus()[:1])
            process = self._stack.enter_context(start)
            self._urls[contender.name] = f"http://{process.address}"
        return self._urls[contender.name]

    def _program(self, contender: Contender) -> Path:
        if contender.name == REFERENCE:
            return self._binary
        if contender.name == FLOOR:
            return contender.build("dev")
        program = find(contender.name)
        assert isinstance(program, Path)
        return program


@cache
def find(name: str) -> Path | str:
    """The program as it was built from the present sources, or why it is not there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "run", refuse)
        try:
            return newest(CONTENDERS[name])
        except (ToolError, OSError) as error:
            return str(error)


def refuse(argv: list[Any], *_: object, **__: object) -> None:
    """Builds nothing; cargo alone does not say whether it would."""
    if argv[0] != "cargo":
        raise ToolError(f"it takes {Path(argv[0]).name}")


def newest(contender: Contender) -> Path:
    """The program, of the profile of cargo's that was built last."""
    found = [contender.build(profile) for profile in ("release", "local", "dev")]
    there = [path for path in found if path.exists()]
    if not there:
        raise ToolError(f"there is no {found[0].name}")
    program = max(there, key=lambda path: path.stat().st_mtime)
    if program.name in RUST:
        files = [*PEERS.glob("rust/src/*.rs"), *PEERS.glob(f"rust/src/bin/{program.name}.rs")]
        if any(file.stat().st_mtime > program.stat().st_mtime for file in files):
            raise ToolError("its sources are newer than its program")
    return program


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def is_there(name: str) -> bool:
    """Whether tests can ask it: what CI builds anyhow, and what was built before."""
    return name in (FLOOR, REFERENCE) or isinstance(find(name), Path)


def who_takes(*parts: str) -> pytest.MarkDecorator:
    """Asks each contender that is there and takes one of these."""
    takers = [name for name, one in CONTENDERS.items() if one.parts & set(parts)]
    return pytest.mark.parametrize("contender", list(filter(is_there, takers)), indirect=True)


pytestmark = pytest.mark.nightly

NUMBERS = (
    *(
        "4",
        "5",
        "0",
        "1",
        "-3",
        "-0",
        "0.1",
        "0.10",
        "-0.0",
        "007",
        "2.50",
        "10",
        "99999999999999999999",
    ),
    "123456789012345678901234567891",
    "0.0000000000000000000000000000000001",
    "-" + "7" * 300 + "." + "9" * 300,
)
NO_NUMBERS = ("four", "1e3", ".5", "1.", "+1", "0x10", "--1", "1.2.3", "NaN", "1,5")


@pytest.fixture(scope="module")
def field(binary: Path) -> Iterator[Field]:
    with ExitStack() as stack:
        yield Field(binary, stack)


@pytest.fixture
def reference(field: Field) -> str:
    """The URL of corelane-server."""
    return field.url(CONTENDERS[REFERENCE])


@pytest.fixture
def contender(request: pytest.FixtureRequest) -> Contender:
    return CONTENDERS[request.param]


@pytest.fixture
def url(field: Field, contender: Contender) -> str:
    return field.url(contender)


@pytest.mark.parametrize("name", CONTENDERS)
def test_it_is_there(name: str) -> None:
    """One line for each that is not asked."""
    if not is_there(name):
        pytest.skip(f"{name} is not built: {find(name)}")


def same(url: str, reference: str, path: str) -> None:
    """The reply is right, and says how long it is: load generators need that."""
    found, wanted = ask(url, path), ask(reference, path)
    assert wanted.status == 200
    assert (found.status, found.body) == (200, wanted.body), path
    assert found.headers["content-length"] == str(len(wanted.body)), path


@who_takes(HELLO)
def test_hello(url: str, reference: str) -> None:
    same(url, reference, "/hello")
    assert ask(url, "/hello").headers["content-type"].startswith("text/plain")
    assert ask(url, "/nothing/here").status == 404


@who_takes(DIV)
def test_half_of_a_number_is_exact(url: str, reference: str) -> None:
    for n in NUMBERS:
        same(url, reference, f"/div/{n}")


@who_takes(DIV)
def test_what_is_no_number_is_refused(url: str, reference: str) -> None:
    for n in NO_NUMBERS:
        assert ask(reference, f"/div/{n}").status == 400
        assert ask(url, f"/div/{n}").status == 400, n


@who_takes(WORK)
def test_work_runs_every_iteration(url: str, reference: str) -> None:
    for ops in (0, 1, 2, 1000, 20_001):
        same(url, reference, f"/work?ops={ops}")
    for query in ("", "?ops=", "?ops=x", "?ops=-1"):
        assert ask(reference, f"/work{query}").status == 400
        assert ask(url, f"/work{query}").status == 400, query


@who_takes(*FILES)
def test_files_are_those_of_the_folder(url: str, reference: str) -> None:
    for path in ("4k.txt", "index.html", ""):
        same(url, reference, f"/static/{path}")
    assert ask(url, "/static/4k.txt").headers["content-type"].startswith("text/plain")
    assert ask(url, "/static/nothing").status == 404


@who_takes(*FILES)
def test_no_file_outside_the_folder(url: str) -> None:
    for path in ("../Cargo.toml", "%2e%2e/Cargo.toml", "..%2fCargo.toml", "/etc/passwd"):
        found = ask(url, f"/static/{path}")
        assert b"[package]" not in found.body and b"root:" not in found.body, path
        assert found.status != 200, path


@who_takes(C10K)
def test_a_client_of_http_1_0_is_told_the_end(url: str) -> None:
    """So does ab, without keep-alive."""
    (found,) = raw.exchange(url, b"GET /static/index.html HTTP/1.0\r\nAccept: */*\r\n\r\n")
    assert (found.status, found.body) == (200, (STATIC / "index.html").read_bytes())


@who_takes(HELLO)
def test_a_connection_serves_many_requests(contender: Contender, url: str) -> None:
    workload = first_of(contender)
    lines = f"GET {workload.target} HTTP/1.1\r\nHost: peer\r\n\r\n".encode()
    with raw.connect(url) as connection:
        for _ in range(3):
            connection.sendall(lines)
            assert reply(connection).body == workload.body


@who_takes(WORK, FILE_4K)
def test_requests_that_come_together_are_answered_in_order(contender: Contender, url: str) -> None:
    if WORK in contender.parts:
        targets = ["/work?ops=1", "/hello", "/work?ops=2"]
    else:
        targets = ["/static/4k.txt", "/static/index.html", "/static/4k.txt"]
    wanted = [ask(url, target).body for target in targets]
    lines = "".join(f"GET {target} HTTP/1.1\r\nHost: peer\r\n\r\n" for target in targets)
    with raw.connect(url) as connection:
        connection.sendall(lines.encode())
        assert [reply(connection).body for _ in targets] == wanted


def reply(connection: socket.socket) -> Reply:
    """One reply, and no byte of the next."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, head
        head += byte
    length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head, re.IGNORECASE)
    assert length, head
    body = connection.recv(int(length[1]), socket.MSG_WAITALL)
    return raw.replies(head + body)[0]
