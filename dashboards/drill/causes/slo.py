"""Requests that fail or are slow until the error budget burns; then good ones until it recovers."""

from collections.abc import Iterator
from contextlib import contextmanager

from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place
from support.processes import running
from support.rendering import tool

BOTH = {"latency": {"fixed": "400ms", "jitter": "0s"}}
"""Above the latency threshold."""


@drill(
    "CorelaneGatewayErrors/warning",
    "CorelaneGatewayErrors/critical",
    "CorelaneRouteErrors/warning",
    "CorelaneRouteErrors/critical",
    how="10% of 20 requests per second get 500 (fault injection); then good requests by ab "
    "until less than 0.1% have failed",
    resolves=300,
    busy=True,
)
def budget_of_errors(place: Place) -> Iterator[Labels]:
    yield from _burn(place, 0.1, {"error": {"status": 500}})


@drill(
    "CorelaneGatewaySlow/warning",
    "CorelaneGatewaySlow/critical",
    "CorelaneRouteSlow/warning",
    "CorelaneRouteSlow/critical",
    how="50% of 20 requests per second take 400 ms (fault injection); then fast requests by "
    "ab until less than 1% were slow",
    resolves=300,
    busy=True,
)
def budget_of_latency(place: Place) -> Iterator[Labels]:
    yield from _burn(place, 0.5, BOTH)


def _burn(place: Place, share: float, fault: dict) -> Iterator[Labels]:
    server = place.server("--faults", "on")
    gateway = place.gateway(server)
    with place.load(gateway.url, clients=8, rate=20):
        place.begins()
        server.fault("/hello", share, **fault)
        yield {}
        server.faults()
    # It runs until the end of the drill, so that the alert resolves.
    place.stack.enter_context(_good(place, f"{gateway.url}/hello"))


@contextmanager
def _good(place: Place, url: str) -> Iterator[None]:
    """Good requests on two connections."""
    argv = ["nice", tool("ab"), "-k", "-q", "-c", "2", "-t", "600", "-n", "5000000", url]
    with (place.folder / "ab.log").open("wb") as log, running(argv, log, log):
        yield
