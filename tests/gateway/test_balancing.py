"""The balancing policies in a real Envoy, each selected by a single value, and the load reports
that weight replicas.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
import yaml

from stack import eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Client, ask
from stack.http_server import Request, serving
from stack.load import Load
from stack.replica import Server
from support.validation import accepted

SLOW_START = {"slowStart": {"window": "15s", "aggression": 1.5}}
BY_USER = {"policy": "ring-hash", "ringHash": {"key": "header", "name": "x-user"}}
SOON = {"blackout": "0s", "update": "100ms"}

POLICIES = {
    "least-request": {"policy": "least-request"},
    "p2c": {"policy": "least-request-p2c", "choices": 3},
    "round-robin": {"policy": "round-robin"},
    "load-aware": {"policy": "load-aware", "loadAware": {"metrics": ["named_metrics.in_flight"]}},
    "least-request, slow start": {"policy": "least-request", **SLOW_START},
    "p2c, slow start": {"policy": "least-request-p2c", **SLOW_START},
    "round-robin, slow start": {"policy": "round-robin", **SLOW_START},
    "load-aware, slow start": {"policy": "load-aware", **SLOW_START},
    "by header": BY_USER,
    "by cookie": {"policy": "ring-hash", "ringHash": {"key": "cookie", "name": "who"}},
    "by a cookie of its own": {
        "policy": "ring-hash",
        "ringHash": {"key": "cookie", "name": "who", "cookieLife": "1h"},
    },
    "by query": {"policy": "ring-hash", "ringHash": {"key": "query", "name": "user"}},
    "by address, bounded": {
        "policy": "ring-hash",
        "ringHash": {"key": "source-address", "boundPercent": 150},
    },
}


@pytest.mark.parametrize("balancing", POLICIES.values(), ids=POLICIES.keys())
def test_envoy_accepts_every_policy_without_a_warning(balancing: dict, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"upstream": {"discovery": "dns", "balancing": balancing}}))
    accepted(tmp_path, values=values)


def replicas(start: Callable[..., Server], count: int) -> list[Server]:
    flags = ["--lanes", "1", "--pin", "off"]
    return [start(*flags, replica=f"replica-{index}") for index in range(count)]


def endpoints(servers: list[Server]) -> list[dict]:
    return [endpoint(server.url, server.admin) for server in servers]


def all_answer(client: Client, count: int) -> None:
    """Waits until every replica has passed a health check."""
    eventually(lambda: len({client.ask("/hello").replica for _ in range(20)}) == count)


def test_round_robin_takes_turns(start: Callable[..., Server], tmp_path: Path) -> None:
    servers = replicas(start, 2)
    upstream = {"balancing": {"policy": "round-robin"}}
    with gateway_to(endpoints(servers), tmp_path, {"upstream": upstream}) as gateway:
        client = Client(gateway.url)
        all_answer(client, 2)
        names = [client.ask("/hello").replica for _ in range(20)]
        client.close()
    assert Counter(names) == {"replica-0": 10, "replica-1": 10}


def test_the_default_passes_a_stuck_replica_by(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    servers = replicas(start, 2)
    # No health check detects this. With round robin, every client would soon be waiting for the
    # stuck replica.
    upstream = {"health": {"interval": "1h"}, "timeout": "10m"}
    with gateway_to(endpoints(servers), tmp_path, {"upstream": upstream}) as gateway:
        client = Client(gateway.url)
        all_answer(client, 2)
        client.close()
        with Load(gateway.url, clients=8) as load:
            load.wait_for(20, replica="replica-0")
            servers[0].freeze()
            load.wait_for(500, replica="replica-1")
            servers[0].thaw()
            load.wait_for(20, replica="replica-0")
    assert not load.failures


def test_a_key_stays_on_its_replica_until_that_is_lost(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    servers = replicas(start, 3)
    upstream = {"health": {"interval": "100ms"}, "balancing": BY_USER}
    with gateway_to(endpoints(servers), tmp_path, {"upstream": upstream}) as gateway:
        client = Client(gateway.url)
        all_answer(client, 3)

        def places() -> dict[int, str]:
            asked = {key: client.ask("/hello", headers={"x-user": f"{key}"}) for key in range(240)}
            assert {reply.status for reply in asked.values()} == {200}
            return {key: reply.replica for key, reply in asked.items()}

        before = places()
        assert set(before.values()) == {"replica-0", "replica-1", "replica-2"}
        assert places() == before
        servers[1].kill()
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2, "its loss")
        after = places()
        client.close()
    moved = {key for key in before if before[key] != after[key]}
    lost = {key for key, name in before.items() if name == "replica-1"}
    assert "replica-1" not in after.values()
    # Envoy gives each survivor more points on the ring, so about a ninth of the other keys also
    # move. Taking the hash modulo the number of replicas would move half of them.
    assert len(moved - lost) < (len(before) - len(lost)) / 3


def reporting(name: str, report: str) -> AbstractContextManager[str]:
    """Yields the URL of a replica whose responses all contain this report."""
    fields = (
        ("endpoint-load-metrics", f"TEXT rps_fractional=100,{report}"),
        ("corelane-replica", name),
    )
    return serving(lambda request: request.reply(200, *fields))


OPPOSITE = (
    "application_utilization=0.9,cpu_utilization=0.1,named_metrics.in_flight=1",
    "application_utilization=0.1,cpu_utilization=0.9,named_metrics.in_flight=9",
)
ERRORS = ("application_utilization=0.1,eps=100", "application_utilization=0.1")


@pytest.mark.parametrize(
    ("reports", "load_aware", "favoured"),
    [
        (OPPOSITE, {}, "second"),
        (OPPOSITE, {"metrics": ["cpu_utilization"]}, "first"),
        (OPPOSITE, {"metrics": ["named_metrics.in_flight"]}, "first"),
        (ERRORS, {}, "second"),
    ],
    ids=["the server's", "by CPU", "by a named metric", "by errors"],
)
def test_load_aware_weighs_by_the_chosen_metric(
    tmp_path: Path, reports: tuple[str, str], load_aware: dict, favoured: str
) -> None:
    upstream = {"balancing": {"policy": "load-aware", "loadAware": {**SOON, **load_aware}}}
    with ExitStack() as stack:
        names = zip(("first", "second"), reports, strict=True)
        urls = [stack.enter_context(reporting(*each)) for each in names]
        entries = [endpoint(url, url) for url in urls]
        gateway = stack.enter_context(gateway_to(entries, tmp_path, {"upstream": upstream}))
        client = Client(gateway.url)
        stack.callback(client.close)
        all_answer(client, 2)

        def share() -> float:
            answered = Counter(client.ask("/").replica for _ in range(100))
            return answered[favoured] / answered.total()

        eventually(lambda: share() > 0.8, f"most requests at the {favoured}")


HEADERS = {"endpoint-load-metrics", "endpoint-load-metrics-bin"}

# Weights are updated as early and as often as Envoy allows.
BY_LOAD_REPORT = {
    "upstream": {
        "balancing": {"policy": "load-aware", "loadAware": {"blackout": "0s", "update": "100ms"}}
    }
}


@pytest.fixture
def pair(
    start: Callable[..., Server], tmp_path: Path
) -> Iterator[Callable[[str], tuple[Server, Gateway]]]:
    """Starts the `busy` and `idle` replicas, and Envoy, which weights them by their load reports.

    Other clients keep the lane of `busy` occupied all the time.
    """
    with ExitStack() as stack:

        def run(form: str) -> tuple[Server, Gateway]:
            flags = ["--lanes", "1", "--pin", "off", "--load-reports", form]
            servers = [start(*flags, replica=name) for name in ("busy", "idle")]
            endpoints = [endpoint(server.url, server.admin) for server in servers]
            gateway = stack.enter_context(gateway_to(endpoints, tmp_path, BY_LOAD_REPORT))
            eventually(lambda: ask(gateway.url, "/hello").status == 200)
            stack.enter_context(Load(servers[0].url, "/work?ops=4000000", clients=2))
            return servers[0], gateway

        yield run


def share_of_idle(load: Load, requests: int) -> float:
    """Returns the share of this many additional requests that the idle replica answers."""
    before = Counter(load.replies)
    load.wait_for(requests)
    assert not load.failures
    window = load.replies - before
    return window["idle"] / window.total()


@pytest.mark.parametrize("form", ["text", "json"])
def test_envoy_sends_more_to_the_replica_that_reports_less_load(
    pair: Callable[[str], tuple[Server, Gateway]], form: str
) -> None:
    busy, gateway = pair(form)
    with Load(gateway.url, clients=4) as load:
        eventually(
            lambda: share_of_idle(load, 200) > 0.8,
            "four of five requests at the idle one",
        )
    assert not load.failures
    # Envoy removes the headers that it uses.
    assert ask(busy.url, "/hello").headers["endpoint-load-metrics"].startswith(form.upper())
    client = Client(gateway.url)
    replies = [client.ask("/hello") for _ in range(100)]
    client.close()
    assert not [reply for reply in replies if HEADERS & reply.headers.keys()]


def test_without_reports_the_split_is_even(
    pair: Callable[[str], tuple[Server, Gateway]],
) -> None:
    busy, gateway = pair("off")
    with Load(gateway.url, clients=4) as load:
        # Until both have passed a health check, one of them gets all requests.
        eventually(
            lambda: share_of_idle(load, 400) == pytest.approx(0.5, abs=0.05),
            "an even split",
        )
    assert not load.failures
    assert not HEADERS & ask(busy.url, "/hello").headers.keys()


def any_report(request: Request) -> None:
    """Answers health checks and requests in the same way, with each report header twice."""
    fields = [
        (name, value)
        for name in ("Endpoint-Load-Metrics", "endpoint-load-metrics-bin")
        for value in ("TEXT cpu_utilization=0.5", "none of the known forms")
    ]
    status = 503 if request.path == "/failing" else 200
    request.reply(status, *fields, ("corelane-replica", "any"))


def test_the_shipped_gateway_shows_no_client_a_report(tmp_path: Path) -> None:
    with (
        serving(any_report) as replica,
        gateway_to([endpoint(replica, replica)], tmp_path) as gateway,
    ):
        eventually(lambda: ask(gateway.url).status == 200)
        for path in ("/", "/failing"):
            assert HEADERS <= ask(replica, path).headers.keys()
            reply = ask(gateway.url, path)
            assert reply.replica == "any"
            assert not HEADERS & reply.headers.keys()
