"""Injected faults: permission, effect and expiry."""

import json
import time
from collections.abc import Callable, Iterator

import pytest

from stack import eventually
from stack.http import Client, Reply, ask
from stack.replica import Server
from support.raw import connect

METHODS = ("GET", "HEAD", "PUT", "DELETE", "POST")


@pytest.fixture(scope="module")
def faulty(
    starter: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    database = tmp_path_factory.mktemp("faults") / "projects.db"
    flags = ["--database.path", str(database), "--timeouts.stall", "100ms"]
    yield starter("--faults", "on", "--lanes", "1", *flags)


@pytest.fixture(autouse=True)
def cleared(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "faulty" in request.fixturenames:
        ask(request.getfixturevalue("faulty").admin, "/faults", "DELETE")


def put(server: Server, *faults: dict, seed: int = 1) -> Reply:
    body = json.dumps({"seed": seed, "faults": faults}).encode()
    return ask(server.admin, "/faults", "PUT", body=body)


def fault(route: str = "/hello", share: float = 1, expires_in: str = "1h", **effect: dict) -> dict:
    return {"route": route, "share": share, "expires_in": expires_in, **effect}


def active(server: Server) -> list[dict]:
    return json.loads(ask(server.admin, "/faults").body)["faults"]


def injected(server: Server, route: str, kind: str) -> float:
    series = f'corelane_faults_injected_total{{route="{route}",fault="{kind}"}}'
    return server.metrics()[series]


@pytest.mark.parametrize("method", METHODS)
def test_a_server_that_was_not_started_so_refuses(server: Server, method: str) -> None:
    body = json.dumps({"faults": [fault(error={"status": 500})]}).encode()
    reply = ask(server.admin, "/faults", method, body=body if method in ("PUT", "POST") else None)
    assert reply.status == 403
    if method != "HEAD":
        assert json.loads(reply.body)["type"] == "urn:corelane:problem:faults-off"
    assert ask(server.url, "/hello").status == 200
    assert not any(series.startswith("corelane_faults") for series in server.metrics())


def test_faults_are_listed_replaced_and_cleared(faulty: Server) -> None:
    assert active(faulty) == []
    one = fault(error={"status": 503}, expires_in="10m", share=0.5) | {"method": "GET"}
    replaced = put(faulty, one)
    assert (replaced.status, json.loads(replaced.body)["seed"]) == (200, 1)
    (shown,) = active(faulty)
    assert shown.pop("expires_in")
    assert shown == {name: value for name, value in one.items() if name != "expires_in"}
    assert faulty.metrics()["corelane_faults_active"] == 1
    put(faulty, fault(latency={"fixed": "1s", "jitter": "5ms"}), fault(cpu={"burn": "1ms"}))
    assert [next(iter(each.keys() & {"latency", "cpu"})) for each in active(faulty)] == [
        "latency",
        "cpu",
    ]
    cleared = ask(faulty.admin, "/faults", "DELETE")
    assert (cleared.status, json.loads(cleared.body)["faults"]) == (200, [])
    assert active(faulty) == []
    refused = ask(faulty.admin, "/faults", "POST", body=b"{}")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, PUT, DELETE")


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"route": "/nowhere"}, 422, "/faults/0/route must be one of / /hello"),
        ({"share": 2}, 422, "/faults/0/share"),
        ({"expires_in": "2h"}, 422, "/faults/0/expires_in must be 1h at most"),
        ({"latency": {"fixed": "5"}}, 422, "a duration has a unit"),
        ({"error": {"status": 200}}, 422, "must be from 400 to 599"),
        ({"cpu": {"burn": "1ms"}}, 422, "one of latency, error and cpu"),
        ({"other": 1}, 422, "unknown field `other`"),
    ],
)
def test_what_is_not_allowed_changes_nothing(
    faulty: Server, change: dict, status: int, words: str
) -> None:
    put(faulty, fault(error={"status": 418}))
    before = [each | {"expires_in": ""} for each in active(faulty)]
    reply = put(faulty, fault(error={"status": 503}) | change)
    assert reply.status == status
    assert words in json.loads(reply.body)["detail"]
    assert [each | {"expires_in": ""} for each in active(faulty)] == before
    assert ask(faulty.admin, "/faults", "PUT", body=b"{").status == 400


def test_an_error_takes_the_place_of_the_handler(faulty: Server) -> None:
    before = injected(faulty, "/hello", "error")
    put(faulty, fault(error={"status": 503}) | {"method": "GET"})
    reply = ask(faulty.url, "/hello")
    assert (reply.status, reply.headers["corelane-fault"]) == (503, "error")
    assert json.loads(reply.body)["type"] == "urn:corelane:problem:fault-injected"
    # Other methods and routes are unaffected.
    for other in (ask(faulty.url, "/hello", "HEAD"), ask(faulty.url, "/div/4")):
        assert (other.status, "corelane-fault" in other.headers) == (200, False)
    assert injected(faulty, "/hello", "error") == before + 1


def test_a_route_is_its_template(faulty: Server) -> None:
    put(faulty, fault("/div/{n}", error={"status": 500}))
    for path in ("/div/4", "/div/x"):
        assert ask(faulty.url, path).headers["corelane-fault"] == "error"


def test_a_seed_gives_the_same_choices_again(faulty: Server) -> None:
    def statuses() -> list[int]:
        put(faulty, fault(error={"status": 500}, share=0.5), seed=7)
        client = Client(faulty.url)
        found = [client.ask("/hello").status for _ in range(40)]
        client.close()
        return found

    first = statuses()
    assert statuses() == first
    assert set(first) == {200, 500}


def test_latency_holds_the_reply_and_not_the_lane(faulty: Server) -> None:
    put(faulty, fault(latency={"fixed": "700ms"}))
    before = injected(faulty, "/hello", "latency")
    begun = time.monotonic()
    with connect(faulty.url) as waiting:
        waiting.sendall(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n")
        # The lane keeps serving other requests.
        while injected(faulty, "/hello", "latency") == before:
            assert ask(faulty.url, "/div/4").status == 200
        assert ask(faulty.url, "/div/4").status == 200
        reply = waiting.recv(65536)
    assert time.monotonic() - begun >= 0.7
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert b"corelane-fault: latency" in reply


def test_a_burn_holds_the_lane(faulty: Server) -> None:
    """To the watchdog, a burn looks like a blocking handler."""
    put(faulty, fault(cpu={"burn": "300ms"}))
    stalls = 'corelane_stalls_total{lane="0",route="/hello"}'
    before = faulty.metrics().get(stalls, 0)

    def stalled() -> bool:
        # A stall can end before the watchdog runs.
        reply = ask(faulty.url, "/hello")
        assert (reply.status, reply.headers["corelane-fault"]) == (200, "cpu")
        return faulty.metrics().get(stalls, 0) > before

    eventually(stalled)


def test_a_fault_ends_by_itself(faulty: Server) -> None:
    put(faulty, fault(error={"status": 500}, expires_in="100ms"))
    eventually(lambda: active(faulty) == [])
    assert ask(faulty.url, "/hello").status == 200
    assert faulty.metrics()["corelane_faults_active"] == 0


def test_who_may_not_write_meets_no_fault(faulty: Server) -> None:
    put(faulty, fault("/projects", error={"status": 500}))
    refused = ask(faulty.url, "/projects", "POST", body=b"{}")
    assert (refused.status, "corelane-fault" in refused.headers) == (401, False)
    assert ask(faulty.url, "/projects").status == 500


def test_the_port_for_requests_has_no_faults(faulty: Server) -> None:
    for method in METHODS:
        assert ask(faulty.url, "/faults", method).status == 404
