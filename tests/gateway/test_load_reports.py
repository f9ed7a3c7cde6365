"""Load reports: Envoy reads them, weighs the replicas by them, and no client sees them."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support import eventually
from support.client import Client, ask
from support.envoys import Gateway, endpoint, gateway_to
from support.load import Load
from support.servers import Server

PATIENCE = 60.0
"""Longest wait in seconds for a split of requests: each one at the busy replica waits its turn."""

HEADERS = {"endpoint-load-metrics", "endpoint-load-metrics-bin"}

# As soon and as often as Envoy allows.
BY_LOAD_REPORT = {
    "upstream": {
        "balancing": {"policy": "load-aware", "loadAware": {"blackout": "0s", "update": "100ms"}}
    }
}


@pytest.fixture
def pair(
    start: Callable[..., Server], tmp_path: Path
) -> Iterator[Callable[[str], tuple[Server, Gateway]]]:
    """Starts the replicas `busy` and `idle`, and Envoy, which weighs them by their load reports.

    The first of the two has so much to do for clients of its own that its lane never waits.
    """
    with ExitStack() as stack:

        def run(form: str) -> tuple[Server, Gateway]:
            flags = ["--lanes", "1", "--pin", "off", "--load-reports", form]
            servers = [start(*flags, replica=name) for name in ("busy", "idle")]
            endpoints = [endpoint(server.url, server.admin) for server in servers]
            gateway = stack.enter_context(gateway_to(endpoints, tmp_path, BY_LOAD_REPORT))
            eventually(lambda: ask(gateway.url, "/hello").status == 200)
            stack.enter_context(Load(servers[0].url, "/work?ops=40000000", clients=2))
            return servers[0], gateway

        yield run


def share_of_idle(load: Load, requests: int) -> float:
    """Which part of so many further requests the idle replica answers."""
    before = Counter(load.replies)
    load.wait_for(requests, patience=PATIENCE)
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
            patience=PATIENCE,
        )
    assert not load.failures
    # What Envoy has acted on is what the client does not see.
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
        # Until both have passed a health check, one of them gets all.
        eventually(
            lambda: share_of_idle(load, 400) == pytest.approx(0.5, abs=0.05),
            "an even split",
            patience=PATIENCE,
        )
    assert not load.failures
    assert not HEADERS & ask(busy.url, "/hello").headers.keys()


class AnyReport(BaseHTTPRequestHandler):
    """A replica that says of its load whatever the request's path asks for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answers health checks and requests alike, with each header twice."""
        self.send_response(503 if self.path == "/failing" else 200)
        for name in ("Endpoint-Load-Metrics", "endpoint-load-metrics-bin"):
            self.send_header(name, "TEXT cpu_utilization=0.5")
            self.send_header(name, "none of the known forms")
        self.send_header("corelane-replica", "any")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def any_report() -> Iterator[str]:
    """URL of a replica that is nothing but its replies."""
    with ThreadingHTTPServer(("127.0.0.1", 0), AnyReport) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["/", "/failing"])
def test_the_shipped_gateway_shows_no_client_a_report(
    any_report: str, tmp_path: Path, path: str
) -> None:
    assert HEADERS <= ask(any_report, path).headers.keys()
    with gateway_to([endpoint(any_report, any_report)], tmp_path) as gateway:
        eventually(lambda: ask(gateway.url).status == 200)
        reply = ask(gateway.url, path)
    assert reply.replica == "any"
    assert not HEADERS & reply.headers.keys()
