"""Projects through the gateway: two replicas on one SQLite file, and writes that happen exactly once."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import pytest

from stack import eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.replica import Server
from support.projects import Database, Projects, key, path, problem, whole
from support.recorder import Recorder

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass(frozen=True)
class Pair:
    """Two replicas that share a database, and the gateway in front of them."""

    database: Database
    replicas: list[Server]
    gateway: Gateway


@pytest.fixture(scope="module")
def pair(
    starter: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Yields replicas that this module's tests share."""
    folder = tmp_path_factory.mktemp("pair")
    database = Database(folder)
    replicas = [starter(*database.flags(), replica=name) for name in ("one", "two")]
    with gateway_to([endpoint(each.url, each.admin) for each in replicas], folder) as gateway:
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2)
        yield Pair(database, replicas, gateway)


@pytest.fixture
def projects(pair: Pair) -> Iterator[Projects]:
    """Returns a client of the gateway."""
    client = Projects(pair.gateway.url)
    yield client
    client.close()


@pytest.fixture
def direct(pair: Pair) -> Iterator[list[Projects]]:
    """Returns a client of each replica."""
    clients = [Projects(each.url) for each in pair.replicas]
    yield clients
    for client in clients:
        client.close()


def test_what_is_written_through_the_gateway_is_read_from_either_replica(
    projects: Projects, direct: list[Projects]
) -> None:
    for number in range(10):
        made = projects.create({"name": f"n{number}"})
        for client in direct:
            found = client.ask(path(made))
            assert (found.status, json.loads(found.body)) == (200, made)
        changed = projects.ask(path(made), "PUT", {"name": "changed"})
        assert {client.ask(path(made)).body for client in direct} == {changed.body}
        assert projects.ask(path(made), "DELETE").status == 204
        assert {client.ask(path(made)).status for client in direct} == {404}


def test_conditions_and_etags_pass_both_ways(projects: Projects) -> None:
    made = projects.ask("/projects", "POST", {"name": "n"})
    where, tag = made.headers["location"], made.headers["etag"]
    fresh = projects.ask(where, headers={"If-None-Match": tag})
    assert (fresh.status, fresh.headers["etag"], fresh.body) == (304, tag, b"")
    changed = projects.ask(where, "PUT", {"name": "m"}, {"If-Match": tag})
    assert (changed.status, changed.headers["etag"]) == (200, '"2"')
    problem(
        projects.ask(where, "PUT", {"name": "l"}, {"If-Match": tag}), 412, "precondition-failed"
    )
    problem(projects.ask(where, "DELETE", None, {"If-Match": tag}), 412, "precondition-failed")
    assert projects.ask(where, "DELETE", None, {"If-Match": '"2"'}).status == 204


def test_who_has_no_token_is_told_how_to_show_one(pair: Pair) -> None:
    stranger = Projects(pair.gateway.url, token=None)
    reply = stranger.ask("/projects", "POST", {"name": "n"})
    stranger.close()
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("size", [5_000, 40_000, 60_000])
def test_bodies_pass_whole_also_those_longer_than_the_gateways_buffer(
    projects: Projects, direct: list[Projects], size: int
) -> None:
    tasks = [{"title": "t", "notes": "n" * 1900} for _ in range(size // 2000)]
    document = whole() | {"tasks": tasks}
    made = projects.create(document)
    for client in direct:
        found = json.loads(client.ask(path(made)).body)
        assert {name: found[name] for name in document} == document


def test_fields_of_requests_reach_the_replica(tmp_path: Path) -> None:
    recorder = Recorder()
    try:
        with gateway_to([endpoint(recorder.url, recorder.admin)], tmp_path) as gateway:
            eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 1)
            client = Projects(gateway.url, token="c2VjcmV0")
            sent = {"If-Match": '"1"', "traceparent": TRACE, "tracestate": "vendor=1"}
            client.ask("/projects/1", "PUT", b"{}", sent)
            client.close()
    finally:
        recorder.close()
    (request,) = recorder.take().requests
    assert request.values(b"authorization") == [b"bearer c2vjcmv0"]
    assert request.values(b"if-match") == [b'"1"']
    assert request.values(b"traceparent") == [TRACE.encode()]
    assert request.values(b"tracestate") == [b"vendor=1"]
    # The gateway assigns each request an ID; the server logs and returns it.
    assert len(request.values(b"x-request-id")) == 1
    assert request.body == b"{}"


def test_a_write_finds_the_other_replica_where_one_is_gone(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    """No process listens there: the request cannot have run, so it is retried."""
    database = Database(tmp_path)
    one, two = (start(*database.flags(), replica=name) for name in ("one", "two"))
    # No health check happens during the test, so the gateway keeps choosing the missing replica.
    values = {"upstream": {"health": {"interval": "10m"}, "outliers": {"consecutiveFailures": 100}}}
    replicas = [endpoint(each.url, each.admin) for each in (one, two)]
    with gateway_to(replicas, tmp_path, values=values) as gateway:
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2)
        one.kill()
        one.wait()
        client = Projects(gateway.url)
        made = [client.create({"name": f"n{number}"}) for number in range(20)]
        client.close()
        assert gateway.counted("cluster.server.upstream_rq_retry_success") > 0
    assert database.rows().keys() == {key(project) for project in made}


def test_no_write_runs_twice_while_a_replica_is_killed(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    database = Database(tmp_path)
    one, two = (start(*database.flags(), replica=name) for name in ("one", "two"))
    acknowledged: list[str] = []
    statuses: set[int] = set()
    sent: set[str] = set()
    enough = threading.Event()

    def save(url: str, number: int) -> None:
        client = Projects(url)
        for count in itertools.count():
            if enough.is_set():
                break
            name = f"{number}-{count}"
            sent.add(name)
            try:
                reply = client.ask("/projects", "POST", {"name": name})
            except (OSError, HTTPException):
                client.close()
                client = Projects(url)
                continue
            statuses.add(reply.status)
            if reply.status == 201:
                acknowledged.append(name)
        client.close()

    replicas = [endpoint(each.url, each.admin) for each in (one, two)]
    with gateway_to(replicas, tmp_path) as gateway:
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2)
        clients = [threading.Thread(target=save, args=(gateway.url, number)) for number in range(8)]
        for client in clients:
            client.start()
        try:
            eventually(lambda: len(acknowledged) > 100, "acknowledged saves")
            one.kill()
            so_far = len(acknowledged)
            eventually(lambda: len(acknowledged) > so_far + 100, "saves at the other replica")
        finally:
            enough.set()
            for client in clients:
                client.join()
    assert statuses <= {201, 503}
    kept = Counter(document["name"] for document in database.rows().values())
    assert set(kept.values()) == {1}
    assert set(acknowledged) <= kept.keys() <= sent
