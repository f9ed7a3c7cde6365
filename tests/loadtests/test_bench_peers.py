"""Every contender of `bench field` answers as corelane-server does: what is compared does the same work.

Here those are asked whose program is there, built from the sources as they are; `make bench` builds all.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loadtests.bench.field import running, workloads
from loadtests.bench.field.contender import (
    C10K,
    DIV,
    FILE_4K,
    FILES,
    HELLO,
    PROJECTS,
    WORK,
    Contender,
)
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.lanes import builds
from loadtests.bench.lanes.load import Generator, Place
from support import REPOSITORY, raw
from support.client import Client, Reply, ask
from support.postgres import Database
from tools import command
from tools.errors import ToolError

FLOOR, REFERENCE = "floor", "corelane-server"

TOKEN = "peers-0123456789abcdef"

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

DOCUMENT = (
    '{"name": "first", "description": "Überblick", "tags": ["a"], "tasks": [{"title": "\\u0000"}]}'
)
OTHER = '{"name":"second"}'


@pytest.fixture(scope="module")
def reference(binary: Path) -> Iterator[str]:
    """The URL of corelane-server."""
    with running.started(CONTENDERS[REFERENCE], binary, cpus=cpus()) as server:
        yield f"http://{server.address}"


@pytest.fixture(scope="module", params=CONTENDERS)
def contender(request: pytest.FixtureRequest) -> Contender:
    return CONTENDERS[request.param]


@pytest.fixture(scope="module")
def program(contender: Contender, request: pytest.FixtureRequest) -> Path:
    if contender.name == REFERENCE:
        return request.getfixturevalue("binary")
    if contender.name == FLOOR:
        return contender.build("dev")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "run", refuse)
        try:
            return newest(contender)
        except (ToolError, OSError) as error:
            pytest.skip(f"{contender.name} is not built: {error}")


@pytest.fixture(scope="module")
def url(contender: Contender, program: Path) -> Iterator[str]:
    with running.started(contender, program, cpus=cpus()) as server:
        yield f"http://{server.address}"


def refuse(argv: list[Any], *_: object, **__: object) -> None:
    """Builds nothing; cargo alone does not say whether it would."""
    if argv[0] != "cargo":
        raise ToolError(f"it takes {Path(argv[0]).name}")


def newest(contender: Contender) -> Path:
    """The program, of the profile of cargo's that was built last."""
    found = [contender.build(profile) for profile in ("release", "dev")]
    there = [path for path in found if path.exists()]
    if not there:
        raise ToolError(f"there is no {found[0].relative_to(REPOSITORY)}")
    program = max(there, key=lambda path: path.stat().st_mtime)
    if program.is_relative_to(builds.BENCH / "target"):
        sources = builds.BENCH / "peers"
        files = [*sources.glob("common/**/*.rs"), *sources.glob("frameworks/**/*.rs")]
        if any(file.stat().st_mtime > program.stat().st_mtime for file in files):
            raise ToolError("its sources are newer than its program")
    return program


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def takes(contender: Contender, *workloads: str) -> None:
    """Skips a contender that takes none of these."""
    if not contender.workloads & set(workloads):
        pytest.skip(f"{contender.name} does not take {workloads[0]}")


def same(url: str, reference: str, path: str) -> None:
    """The reply is right, and says how long it is: load generators need that."""
    found, wanted = ask(url, path), ask(reference, path)
    assert wanted.status == 200
    assert (found.status, found.body) == (200, wanted.body), path
    assert found.headers["content-length"] == str(len(wanted.body)), path


def test_hello(contender: Contender, url: str, reference: str) -> None:
    takes(contender, HELLO)
    same(url, reference, "/hello")
    assert ask(url, "/hello").headers["content-type"].startswith("text/plain")
    assert ask(url, "/nothing/here").status == 404


def test_half_of_a_number_is_exact(contender: Contender, url: str, reference: str) -> None:
    takes(contender, DIV)
    for n in NUMBERS:
        same(url, reference, f"/div/{n}")


def test_what_is_no_number_is_refused(contender: Contender, url: str, reference: str) -> None:
    takes(contender, DIV)
    for n in NO_NUMBERS:
        assert ask(reference, f"/div/{n}").status == 400
        assert ask(url, f"/div/{n}").status == 400, n


def test_work_runs_every_iteration(contender: Contender, url: str, reference: str) -> None:
    takes(contender, WORK)
    for ops in (0, 1, 2, 1000, 20_001):
        same(url, reference, f"/work?ops={ops}")
    for query in ("", "?ops=", "?ops=x", "?ops=-1"):
        assert ask(reference, f"/work{query}").status == 400
        assert ask(url, f"/work{query}").status == 400, query


def test_files_are_those_of_the_folder(contender: Contender, url: str, reference: str) -> None:
    takes(contender, *FILES)
    for path in ("4k.txt", "index.html", ""):
        same(url, reference, f"/static/{path}")
    assert ask(url, "/static/4k.txt").headers["content-type"].startswith("text/plain")
    assert ask(url, "/static/nothing").status == 404


def test_no_file_outside_the_folder(contender: Contender, url: str) -> None:
    takes(contender, *FILES)
    for path in ("../Cargo.toml", "%2e%2e/Cargo.toml", "..%2fCargo.toml", "/etc/passwd"):
        found = ask(url, f"/static/{path}")
        assert b"[package]" not in found.body and b"root:" not in found.body, path
        assert found.status != 200, path


def test_a_client_of_http_1_0_is_told_the_end(contender: Contender, url: str) -> None:
    """So does ab, without keep-alive."""
    takes(contender, C10K)
    (found,) = raw.exchange(url, b"GET /static/index.html HTTP/1.0\r\nAccept: */*\r\n\r\n")
    assert (found.status, found.body) == (200, (workloads.STATIC / "index.html").read_bytes())


def test_a_connection_serves_many_requests(contender: Contender, url: str) -> None:
    workload = workloads.first_of(contender)
    lines = f"GET {workload.target} HTTP/1.1\r\nHost: peer\r\n\r\n".encode()
    with raw.connect(url) as connection:
        for _ in range(3):
            connection.sendall(lines)
            assert reply(connection).body == workload.body


def test_requests_that_come_together_are_answered_in_order(contender: Contender, url: str) -> None:
    takes(contender, WORK, FILE_4K)
    if WORK in contender.workloads:
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
    name = b"content-length:"
    (length,) = (line for line in head.lower().split(b"\r\n") if line.startswith(name))
    body = connection.recv(int(length.removeprefix(name)), socket.MSG_WAITALL)
    return raw.replies(head + body)[0]


@pytest.fixture(scope="module")
def stored(
    contender: Contender,
    program: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[tuple[str, Database]]:
    """The URL of a contender that keeps projects, and its database."""
    takes(contender, PROJECTS)
    database = request.getfixturevalue("postgres").database()
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    password = database.password_file.read_text().strip()
    kept = running.Database(database.url.replace("@", f":{password}@", 1), token)
    with running.started(contender, program, cpus=cpus(), database=kept) as server:
        yield f"http://{server.address}", database


@pytest.fixture
def projects(stored: tuple[str, Database]) -> Iterator[Callable[..., Reply]]:
    """Asks for projects, on one connection."""
    client = Client(stored[0])

    def asked(
        method: str, path: str = "/projects", document: str | None = None, **fields: str
    ) -> Reply:
        headers = {"Authorization": f"Bearer {TOKEN}"} if document else {}
        if document:
            headers["Content-Type"] = "application/json"
        headers |= {name.replace("_", "-"): value for name, value in fields.items()}
        body = document.encode() if document else None
        return client.ask(path, method, body, {k: v for k, v in headers.items() if v})

    yield asked
    client.close()


def shows(reply: Reply, document: str, path: str, version: int) -> None:
    """The reply is the project: what the server says of it, then the document."""
    assert reply.headers["etag"] == f'"{version}"'
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["content-length"] == str(len(reply.body))
    found = json.loads(reply.body)
    own = {name: found.pop(name) for name in ("id", "version", "created", "updated")}
    assert found == json.loads(document)
    assert (own["id"], own["version"]) == (path.removeprefix("/projects/"), version)
    assert own["created"] <= own["updated"]
    assert own["updated"].endswith("Z") and len(own["updated"]) == len(
        "2026-01-01T00:00:00.000000Z"
    )


def test_a_project_is_made_loaded_and_saved(projects: Callable[..., Reply]) -> None:
    made = projects("POST", document=DOCUMENT)
    assert made.status == 201
    path = made.headers["location"]
    assert path.startswith("/projects/")
    shows(made, DOCUMENT, path, 1)
    loaded = projects("GET", path)
    assert loaded.status == 200
    assert loaded.body == made.body
    shows(loaded, DOCUMENT, path, 1)
    saved = projects("PUT", path, OTHER, If_Match='"1"')
    assert saved.status == 200
    shows(saved, OTHER, path, 2)
    assert projects("GET", path).body == saved.body
    # Without a condition whatever is there is replaced.
    shows(projects("PUT", path, DOCUMENT), DOCUMENT, path, 3)


def test_a_stale_save_changes_nothing(projects: Callable[..., Reply]) -> None:
    path = projects("POST", document=DOCUMENT).headers["location"]
    for tag in ('"2"', '"0"', '"x"'):
        assert projects("PUT", path, OTHER, If_Match=tag).status == 412, tag
    shows(projects("GET", path), DOCUMENT, path, 1)


def test_only_who_has_the_token_writes(
    projects: Callable[..., Reply], stored: tuple[str, Database]
) -> None:
    path = projects("POST", document=DOCUMENT).headers["location"]
    count = stored[1].query("SELECT count(*) FROM projects")
    for wrong in ("", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer "):
        for method, target in (("POST", "/projects"), ("PUT", path)):
            refused = projects(method, target, OTHER, Authorization=wrong)
            assert refused.status == 401, (method, wrong)
            assert refused.headers["www-authenticate"].startswith("Bearer")
    assert stored[1].query("SELECT count(*) FROM projects") == count
    shows(projects("GET", path), DOCUMENT, path, 1)


def test_what_is_not_there_is_not_found(projects: Callable[..., Reply]) -> None:
    path = "/projects/018f4d5e-7c3a-7b2f-9d10-0123456789ab"
    assert projects("GET", path).status == 404
    assert projects("PUT", path, OTHER, If_Match='"1"').status == 404
    assert projects("PUT", path, OTHER).status == 404
    assert projects("GET", "/projects/x").status in (400, 404)


def test_what_is_no_document_is_refused(
    projects: Callable[..., Reply], stored: tuple[str, Database]
) -> None:
    path = projects("POST", document=DOCUMENT).headers["location"]
    count = stored[1].query("SELECT count(*) FROM projects")
    for wrong in ("{", '{"name": "a"', '{"name": "a"}}', "name", '{"name": "a",}'):
        assert projects("POST", document=wrong).status == 400, wrong
        assert projects("PUT", path, wrong).status == 400, wrong
    for wrong in ("[1]", "5"):
        assert projects("POST", document=wrong).status in (400, 422), wrong
    assert stored[1].query("SELECT count(*) FROM projects") == count


def test_what_is_saved_is_in_the_table(
    projects: Callable[..., Reply], stored: tuple[str, Database]
) -> None:
    path = projects("POST", document=OTHER).headers["location"]
    select = (
        f"SELECT version, document FROM projects WHERE id = '{path.removeprefix('/projects/')}'"
    )
    assert stored[1].query(select) == [["1", OTHER]]
    projects("PUT", path, '{"name":"third"}', If_Match='"1"')
    assert stored[1].query(select) == [["2", '{"name":"third"}']]


def test_users_who_check_every_byte_find_no_error(
    stored: tuple[str, Database], tmp_path: Path
) -> None:
    """With more users than connections to the database, which wait."""
    url, database = stored
    token = tmp_path / "token"
    token.write_text(TOKEN)
    generator = builds.build(builds.BENCH, ["load-generator"], "dev") / "load-generator"
    options = {"users": 40, "page": workloads.STATIC / "4k.txt", "token": token, "seed": 7}
    address = url.removeprefix("http://")
    with Generator(generator, Place(cpus()), "users", address, **options) as users:
        result = users.measure(
            json.dumps({"loop": "closed", "kinds": ["load", "save"], "rounds": 3})
        )
    assert (result["requests"], result["faults"]) == (240, {})
    at_once = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database.name}'"
    assert 1 <= int(database.query(at_once)[0][0]) - 1 <= 8
