"""`/projects` over real sockets."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from stack import PATIENCE
from stack.http import ask
from stack.replica import Server
from support.projects import PATIENT, Database, Projects, connected, path, problem, whole

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
NOBODY = "/projects/018f4d5e-7c3a-7b2f-9d10-0123456789ab"


@pytest.fixture(scope="module")
def started(
    request: pytest.FixtureRequest,
    starter: Callable[..., Server],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Server]:
    """One server for each kind of database, regardless of test order."""

    @cache
    def start(kind: str) -> Server:
        flags = [*Database(tmp_path_factory.mktemp("projects")).flags(), *PATIENT]
        if kind == "postgres":
            flags += request.getfixturevalue("postgres").database().flags()
        server = starter(*flags)
        connected(server)
        return server

    return start


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, started: Callable[[str], Server]) -> str:
    """The URL of a shared server, for each kind of database."""
    return started(request.param).url


@pytest.fixture
def projects(url: str) -> Iterator[Projects]:
    client = Projects(url)
    yield client
    client.close()


def test_a_project_is_made_and_found_again(projects: Projects) -> None:
    made = projects.ask("/projects", "POST", whole())
    assert made.status == 201
    project = json.loads(made.body)
    assert UUID.fullmatch(project["id"])
    assert made.headers["location"] == path(project)
    assert made.headers["etag"] == '"1"'
    assert made.headers["content-type"] == "application/json"
    assert TIME.fullmatch(project["created"])
    own = {"id": project["id"], "version": 1, "created": project["created"]}
    assert project == own | {"updated": project["created"]} | whole()

    found = projects.ask(path(project))
    assert (found.status, found.body) == (200, made.body)
    assert found.headers["etag"] == '"1"'
    assert found.headers["cache-control"] == "no-cache"


def test_head_equals_get_without_body(projects: Projects) -> None:
    project = projects.create({"name": "n"})
    varying = {"date", "corelane-lane", "x-request-id"}
    for target in (path(project), "/projects?limit=1", NOBODY):
        get, head = projects.ask(target), projects.ask(target, "HEAD")
        assert (head.status, head.body) == (get.status, b"")
        assert {k: v for k, v in head.headers.items() if k not in varying} == {
            k: v for k, v in get.headers.items() if k not in varying
        }


def test_a_text_is_kept_as_it_was_written_without_white_space(projects: Projects) -> None:
    text = '{ "tags" : [ "a\\u0000b" , "\\ud83d\\ude00" ] ,\n\t"name" : " \\"\\\\ \u00e9" }'
    project = projects.ask("/projects", "POST", text.encode())
    assert project.body.endswith(
        ',"tags":["a\\u0000b","\\ud83d\\ude00"],"name":" \\"\\\\ \u00e9"}'.encode()
    )
    assert projects.ask(project.headers["location"]).body == project.body


def test_a_project_is_replaced_as_a_whole(projects: Projects) -> None:
    first = projects.create(whole())
    reply = projects.ask(path(first), "PUT", {"name": "other"})
    assert reply.status == 200
    assert reply.headers["etag"] == '"2"'
    second = json.loads(reply.body)
    assert second["updated"] > first["updated"]
    own = {"id": first["id"], "version": 2, "created": first["created"]}
    assert second == own | {"updated": second["updated"], "name": "other"}
    assert projects.ask(path(first)).body == reply.body


def test_a_deleted_project_is_gone(projects: Projects) -> None:
    project = projects.create({"name": "n"})
    reply = projects.ask(path(project), "DELETE")
    assert (reply.status, reply.body) == (204, b"")
    for method, body in (("GET", None), ("PUT", {"name": "n"}), ("DELETE", None)):
        problem(projects.ask(path(project), method, body), 404, "not-found")


@pytest.mark.parametrize("target", ["/projects/", "/projects/x/y", "/projectsx", NOBODY])
def test_what_is_not_there_is_404(projects: Projects, target: str) -> None:
    problem(projects.ask(target), 404, "not-found")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("id", ["x", NOBODY[10:].upper(), NOBODY[10:].replace("-", ""), "%00"])
def test_a_malformed_id_is_named(projects: Projects, method: str, id: str) -> None:
    body = {"name": "n"} if method == "PUT" else None
    members = problem(projects.ask(f"/projects/{id}", method, body), 400, "bad-parameter")
    assert members["parameter"] == "id"


@pytest.mark.parametrize(
    ("target", "allow", "refused"),
    [
        ("/projects", "GET, HEAD, POST, OPTIONS", ("PUT", "DELETE", "PATCH", "BREW")),
        (NOBODY, "GET, HEAD, PUT, DELETE, OPTIONS", ("POST", "PATCH", "BREW")),
    ],
)
def test_methods_are_told(url: str, target: str, allow: str, refused: tuple[str, ...]) -> None:
    options = ask(url, target, "OPTIONS")
    assert (options.status, options.headers["allow"]) == (204, allow)
    for method in refused:
        reply = ask(url, target, method)
        problem(reply, 405, "method-not-allowed")
        assert reply.headers["allow"] == allow


@pytest.mark.parametrize(
    ("method", "target"), [("POST", "/projects"), ("PUT", NOBODY), ("DELETE", NOBODY)]
)
@pytest.mark.parametrize("token", [None, "another"])
def test_who_has_no_token_changes_nothing(
    url: str, method: str, target: str, token: str | None
) -> None:
    """Unauthenticated clients learn nothing else about their request."""
    reply = Projects(url, token).ask(target, method, b"no JSON")
    problem(reply, 401, "unauthorized")
    assert reply.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"name": "n"} x',
        b'{"name": "n",}',
        b"{'name': 'n'}",
        b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
        b'\xef\xbb\xbf{"name": "n"}',
        b'{"name": NaN}',
        b"[" * 30_000,
    ],
)
def test_what_is_not_json_is_400(projects: Projects, text: bytes) -> None:
    problem(projects.ask("/projects", "POST", text), 400, "bad-json")


@pytest.mark.parametrize(
    ("document", "pointers"),
    [
        ("[]", [""]),
        ("{}", ["/name"]),
        ('{"name": null}', ["/name"]),
        ('{"name": ""}', ["/name"]),
        (json.dumps({"name": "é" * 201}), ["/name"]),
        ('{"name": "a", "name": "b"}', ["/name"]),
        ('{"name": "a", "na\\u006de": "b"}', ["/name"]),
        ('{"name": "a", "id": "x"}', ["/id"]),
        ('{"name": "a", "x/y~z": 1}', ["/x~1y~0z"]),
        (json.dumps({"name": "a", "description": "d" * 2001}), ["/description"]),
        ('{"name": "a", "status": "Done"}', ["/status"]),
        ('{"name": "a", "tags": ["", "t"]}', ["/tags/0"]),
        (json.dumps({"name": "a", "tags": ["t"] * 21}), ["/tags"]),
        (json.dumps({"name": "a", "tasks": [{"title": "t"}] * 201}), ["/tasks"]),
        ('{"name": "a", "tasks": [{"done": 1}]}', ["/tasks/0/title", "/tasks/0/done"]),
    ],
)
def test_a_wrong_document_is_422_with_where_it_is_wrong(
    projects: Projects, document: str, pointers: list[str]
) -> None:
    for method, target in (("POST", "/projects"), ("PUT", NOBODY)):
        reply = projects.ask(target, method, document.encode())
        members = problem(reply, 422, "invalid-document")
        assert [error["pointer"] for error in members["errors"]] == pointers
        assert all(error["detail"] for error in members["errors"])


def test_the_largest_members_are_taken(projects: Projects) -> None:
    tasks = [{"title": "é" * 200}] * 100 + [{"title": "t", "notes": ""}] * 100
    document = {"name": "é" * 200, "description": "é" * 2000, "tags": ["é" * 50] * 20}
    project = projects.create(document | {"status": "done", "tasks": tasks})
    assert project["tasks"] == tasks


@pytest.mark.parametrize(
    ("headers", "accept"),
    [
        ({"Content-Type": "text/plain"}, "accept"),
        ({"Content-Type": "application/json+x"}, "accept"),
        ({"Content-Type": ""}, "accept"),
        ({"Content-Encoding": "gzip"}, "accept-encoding"),
    ],
)
def test_other_media_types_are_415(
    projects: Projects, headers: dict[str, str], accept: str
) -> None:
    reply = projects.ask("/projects", "POST", {"name": "n"}, headers)
    problem(reply, 415, "unsupported-media-type")
    assert reply.headers[accept]


@pytest.mark.parametrize("kind", ["Application/JSON", "application/json ; charset=utf-8"])
def test_json_is_json_with_any_parameter(projects: Projects, kind: str) -> None:
    assert projects.ask("/projects", "POST", {"name": "n"}, {"Content-Type": kind}).status == 201


def test_a_document_has_at_most_64_kib(url: str) -> None:
    """Separate connections, because oversized bodies are not read."""
    fits = b'{"name": "n"' + b" " * (65_536 - 13) + b"}"
    assert Projects(url).ask("/projects", "POST", fits).status == 201
    problem(Projects(url).ask("/projects", "POST", fits + b" "), 413, "body-too-large")
    # Without Content-Length.
    chunked = {"Transfer-Encoding": "chunked"}
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (fits, b" ")) + b"0\r\n\r\n"
    problem(Projects(url).ask("/projects", "POST", body, chunked), 413, "body-too-large")


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=", "limit"),
        ("limit=ten", "limit"),
        ("limit=1&limit=1", "limit"),
        ("cursor=", "cursor"),
        ("cursor=x", "cursor"),
        ("cursor=018f4d5e-7c3a-7b2f-9d10-0123456789ab", "cursor"),
    ],
)
def test_a_bad_parameter_is_named(projects: Projects, query: str, parameter: str) -> None:
    members = problem(projects.ask(f"/projects?{query}"), 400, "bad-parameter")
    assert members["parameter"] == parameter


CONDITIONS = [
    # header, value, status of GET, of PUT and of DELETE; the project's tag is "2"
    ("If-Match", '"2"', 200, 200, 204),
    ("If-Match", "*", 200, 200, 204),
    ("If-Match", '"1" , "2"', 200, 200, 204),
    ("If-Match", '"1"', 412, 412, 412),
    ("If-Match", '"02"', 412, 412, 412),
    ("If-Match", 'W/"2"', 412, 412, 412),
    ("If-Match", '"1,2"', 412, 412, 412),
    ("If-Match", "2", 400, 400, 400),
    ("If-None-Match", '"2"', 304, 412, 412),
    ("If-None-Match", 'W/"2"', 304, 412, 412),
    ("If-None-Match", '"1", W/"2"', 304, 412, 412),
    ("If-None-Match", "*", 304, 412, 412),
    ("If-None-Match", '"1"', 200, 200, 204),
    ("If-None-Match", '"x', 400, 400, 400),
]


@pytest.mark.parametrize(("header", "value", "get", "put", "delete"), CONDITIONS)
def test_conditions_are_kept(
    projects: Projects, header: str, value: str, get: int, put: int, delete: int
) -> None:
    for method, status in (("GET", get), ("PUT", put), ("DELETE", delete)):
        project = projects.create({"name": "n"})
        assert projects.ask(path(project), "PUT", {"name": "n"}).headers["etag"] == '"2"'
        body = {"name": "changed"} if method == "PUT" else None
        reply = projects.ask(path(project), method, body, {header: value})
        assert reply.status == status
        if status == 304:
            assert (reply.body, reply.headers["etag"]) == (b"", '"2"')
        if status == 412:
            assert '"2"' in problem(reply, 412, "precondition-failed")["detail"]
            assert json.loads(projects.ask(path(project)).body)["name"] == "n"


def test_conditions_come_after_what_else_is_wrong(projects: Projects) -> None:
    stale = {"If-Match": '"9"'}
    project = projects.create({"name": "n"})
    problem(projects.ask(path(project), "PUT", {}, stale), 422, "invalid-document")
    problem(projects.ask(NOBODY, "PUT", {"name": "n"}, stale), 404, "not-found")
    problem(projects.ask(NOBODY, "DELETE", None, {"If-Match": "*"}), 404, "not-found")


def test_no_update_is_lost(url: str) -> None:
    """Clients increment a counter with If-Match, retrying on conflicts."""
    clients, each = 8, 10
    # All clients read the first version before it is replaced.
    have_read = threading.Barrier(clients)
    project = Projects(url).create({"name": "count", "description": "0"})

    def count(_: int) -> int:
        mine, late = Projects(url), 0
        for turn in range(each):
            while True:
                now = mine.ask(path(project))
                if turn == late == 0:
                    have_read.wait(PATIENCE)
                more = str(int(json.loads(now.body)["description"]) + 1)
                document = {"name": "count", "description": more}
                tag = {"If-Match": now.headers["etag"]}
                if mine.ask(path(project), "PUT", document, tag).status == 200:
                    break
                late += 1
        mine.close()
        return late

    with ThreadPoolExecutor(clients) as pool:
        late = sum(pool.map(count, range(clients)))
    last = json.loads(Projects(url).ask(path(project)).body)
    assert last["description"] == str(clients * each)
    assert last["version"] == clients * each + 1
    assert late >= clients - 1


def test_pages_hold_every_project_once_in_order(start, tmp_path: Path) -> None:
    server: Server = start(*Database(tmp_path).flags())
    projects = Projects(server.url)
    assert projects.page() == {"projects": [], "next": None}
    made = [projects.create({"name": str(n)})["id"] for n in range(45)]
    for limit in (1, 7, 21, 45, 100):
        seen, cursor = [], {}
        while True:
            page = projects.page(limit=limit, **cursor)
            assert 1 <= len(page["projects"]) <= limit
            seen += [project["id"] for project in page["projects"]]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert seen == sorted(made)
    assert len(projects.page()["projects"]) == 20
    # New projects appear after all pages, and deleted projects leave no gaps.
    cursor = projects.page(limit=10)["next"]
    projects.ask(f"/projects/{sorted(made)[9]}", "DELETE")
    assert projects.page(limit=1, cursor=cursor)["projects"][0]["id"] == sorted(made)[10]


def test_a_page_of_large_documents_ends_early(start, tmp_path: Path) -> None:
    projects = Projects(start(*Database(tmp_path).flags()).url)
    large = {"name": "n", "tasks": [{"title": "t", "notes": "n" * 2000}] * 30}
    made = {projects.create(large)["id"] for _ in range(30)}
    first = projects.page(limit=100)
    assert 1 <= len(first["projects"]) < 30
    second = projects.page(limit=100, cursor=first["next"])
    assert second["next"] is None
    assert {project["id"] for page in (first, second) for project in page["projects"]} == made


def test_without_a_database_there_are_no_projects(server: Server) -> None:
    for target, method in (("/projects", "GET"), ("/projects", "POST"), (NOBODY, "GET")):
        problem(ask(server.url, target, method), 404, "not-found")
