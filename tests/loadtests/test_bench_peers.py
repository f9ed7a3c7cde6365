"""Every contender of `bench field` answers as corelane-server does: what is compared does the same work.

Here those are asked whose program is there, built from the sources as they are; `make bench` builds all.
"""

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadtests.bench.experiment import builds
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.field import workloads
from loadtests.bench.field.contender import (
    C10K,
    DIV,
    FILE_4K,
    FILES,
    HELLO,
    PROJECTS,
    WORK,
    WORKLOADS,
    Contender,
)
from loadtests.bench.field.contenders import CONTENDERS
from support import raw
from support.client import Reply, ask
from support.field import REFERENCE, Field, Stored, cpus, find, is_there, who_takes
from support.postgres import Postgres

pytestmark = pytest.mark.nightly

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
def field(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    with ExitStack() as stack:
        yield Field(binary, token, stack)


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
    assert (found.status, found.body) == (200, (workloads.STATIC / "index.html").read_bytes())


@who_takes(*WORKLOADS)
def test_a_connection_serves_many_requests(contender: Contender, url: str) -> None:
    workload = workloads.first_of(contender)
    lines = f"GET {workload.target} HTTP/1.1\r\nHost: peer\r\n\r\n".encode()
    with raw.connect(url) as connection:
        for _ in range(3):
            connection.sendall(lines)
            assert reply(connection).body == workload.body


@who_takes(WORK, FILE_4K)
def test_requests_that_come_together_are_answered_in_order(contender: Contender, url: str) -> None:
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
    length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head, re.IGNORECASE)
    assert length, head
    body = connection.recv(int(length[1]), socket.MSG_WAITALL)
    return raw.replies(head + body)[0]


@pytest.fixture
def stored(field: Field, contender: Contender, postgres: Postgres) -> Stored:
    return field.stored(contender, postgres)


@pytest.fixture
def projects(stored: Stored) -> Callable[..., Reply]:
    """Asks for projects: head and body are sent together, each request on a connection of its own."""

    def asked(method: str, path: str = "/projects", document: str = "", **fields: str) -> Reply:
        body = document.encode()
        known = {"Host": "peer"}
        if document:
            known |= {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            known |= {"Content-Length": str(len(body))}
        known |= {name.replace("_", "-"): value for name, value in fields.items()}
        lines = [f"{name}: {value}" for name, value in known.items() if value]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""])
        with raw.connect(stored.url) as connection:
            connection.sendall(head.encode() + body)
            return reply(connection)

    return asked


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


@who_takes(PROJECTS)
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


@who_takes(PROJECTS)
def test_a_stale_save_changes_nothing(projects: Callable[..., Reply]) -> None:
    path = projects("POST", document=DOCUMENT).headers["location"]
    for tag in ('"2"', '"0"', '"x"'):
        assert projects("PUT", path, OTHER, If_Match=tag).status == 412, tag
    shows(projects("GET", path), DOCUMENT, path, 1)


@who_takes(PROJECTS)
def test_only_who_has_the_token_writes(projects: Callable[..., Reply], stored: Stored) -> None:
    path = projects("POST", document=DOCUMENT).headers["location"]
    count = stored.count()
    for wrong in ("", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer "):
        for method, target in (("POST", "/projects"), ("PUT", path)):
            refused = projects(method, target, OTHER, Authorization=wrong)
            assert refused.status == 401, (method, wrong)
            assert refused.headers["www-authenticate"].startswith("Bearer")
    assert stored.count() == count
    shows(projects("GET", path), DOCUMENT, path, 1)


@who_takes(PROJECTS)
def test_what_is_not_there_is_not_found(projects: Callable[..., Reply]) -> None:
    path = "/projects/018f4d5e-7c3a-7b2f-9d10-0123456789ab"
    assert projects("GET", path).status == 404
    assert projects("PUT", path, OTHER, If_Match='"1"').status == 404
    assert projects("PUT", path, OTHER).status == 404
    assert projects("GET", "/projects/x").status in (400, 404)


@who_takes(PROJECTS)
def test_what_is_no_document_is_refused(projects: Callable[..., Reply], stored: Stored) -> None:
    path = projects("POST", document=DOCUMENT).headers["location"]
    count = stored.count()
    for wrong in ("{", '{"name": "a"', '{"name": "a"}}', "name", '{"name": "a",}'):
        assert projects("POST", document=wrong).status == 400, wrong
        assert projects("PUT", path, wrong).status == 400, wrong
    for wrong in ("[1]", "5"):
        assert projects("POST", document=wrong).status in (400, 422), wrong
    assert stored.count() == count


@who_takes(PROJECTS)
def test_what_is_saved_is_in_the_table(projects: Callable[..., Reply], stored: Stored) -> None:
    path = projects("POST", document=OTHER).headers["location"]
    select = (
        f"SELECT version, document FROM projects WHERE id = '{path.removeprefix('/projects/')}'"
    )
    assert stored.database.query(select) == [["1", OTHER]]
    projects("PUT", path, '{"name":"third"}', If_Match='"1"')
    assert stored.database.query(select) == [["2", '{"name":"third"}']]


@who_takes(PROJECTS)
def test_users_who_check_every_byte_find_no_error(stored: Stored, tmp_path: Path) -> None:
    """With more users than connections to the database, which wait."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    generator = builds.build(builds.BENCH, ["load-generator"], "dev") / "load-generator"
    options = {
        "users": 40,
        "page": workloads.STATIC / "4k.txt",
        "token": token,
        "seed": 7,
    }
    address = stored.url.removeprefix("http://")
    with Generator(generator, Place(cpus()), "users", address, **options) as users:
        result = users.measure(
            json.dumps({"loop": "closed", "kinds": ["load", "save"], "rounds": 3})
        )
    assert (result["requests"], result["faults"]) == (240, {})
    at_once = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{stored.database.name}'"
    assert 1 <= int(stored.database.query(at_once)[0][0]) - 1 <= 8
