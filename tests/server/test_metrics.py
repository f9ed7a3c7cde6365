"""The admin port's metrics, parsed as Prometheus parses them."""

import json
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import accumulate

import pytest

from stack import REPOSITORY, eventually
from stack.http import ask
from stack.replica import Server
from support.collector import Collector, Point, collector
from support.exposition import Family, families
from support.raw import connect

CONNECTIONS = 10_000
"""The server's default limit."""

SCRAPES = 20

SCRAPE_SECONDS = 0.010
"""CPU seconds allowed for a scrape; typical use is below a tenth."""


def series(text: str) -> set[str]:
    lines = (line.partition(" # {")[0] for line in text.splitlines() if not line.startswith("#"))
    return {line.rpartition(" ")[0] for line in lines}


def test_promtool_finds_nothing_wrong(server: Server) -> None:
    for path in ("/hello", "/div/4", "/none"):
        ask(server.url, path)
    eventually(lambda: any('phase="write"' in series for series in server.metrics()))
    reply = ask(server.admin, "/metrics")
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.headers["vary"] == "accept"
    openmetrics = reply.body.decode()
    assert openmetrics.endswith("# EOF\n")
    # The older text format, which promtool reads.
    reply = ask(server.admin, "/metrics", headers={"Accept": "text/plain;version=0.0.4"})
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = reply.body.decode()
    assert series(text) == series(openmetrics)
    argv = [sys.executable, "hack/tools", "run", "promtool", "check", "metrics"]
    check = subprocess.run(
        argv, cwd=REPOSITORY, input=text, capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


@pytest.fixture
def connections() -> Iterator[int]:
    """Connections that the file limit permits for this process and the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(CONNECTIONS, hard - 200)  # minus other files
    if allowed < 4_000:
        pytest.skip(f"at most {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield allowed
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_and_ask(server: Server, count: int, clients: ExitStack) -> dict[int, socket.socket]:
    """Opens connections that each send one request, on several routes. Returns one connection per
    lane.
    """
    paths = ("/", "/hello", "/div/4", "/work?ops=1", "/static/4k.txt", "/none")
    of_lane = {}
    for index in range(count):
        client = clients.enter_context(connect(server.url))
        client.sendall(f"GET {paths[index % len(paths)]} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        reply = client.recv(65536)
        lane = re.search(rb"\r\ncorelane-lane: (\d+)\r\n", reply)
        assert lane, reply
        of_lane.setdefault(int(lane[1]), client)
    return of_lane


def cpu_seconds(server: Server, thread: str) -> float:
    """CPU time of a thread (proc(5), schedstat), which other threads do not affect."""
    return int((server.threads()[thread] / "schedstat").read_text().split()[0]) / 1e9


def test_a_scrape_costs_little_and_waits_for_no_lane(
    start: Callable[..., Server], connections: int
) -> None:
    # Prevents connections from being closed, parked or moved to another lane.
    rest = ("--timeouts.idle", "1h", "--park-after", "off")
    server = start("--work.max-ops", "1000000000000", *rest)

    def polled() -> list[str | None]:
        lanes = json.loads(ask(server.admin, "/lanes").body)["lanes"]
        return [lane["polling"] and lane["polling"]["route"] for lane in lanes]

    def scrape() -> float:
        metrics = server.metrics()
        return sum(n for name, n in metrics.items() if name.startswith("corelane_connections{"))

    with ExitStack() as clients:
        of_lane = open_and_ask(server, connections, clients)
        assert len(of_lane) == len(polled()), "every lane has connections"
        scrape()
        before = cpu_seconds(server, "admin")
        assert {scrape() for _ in range(SCRAPES)} == {connections}
        mean = (cpu_seconds(server, "admin") - before) / SCRAPES
        print(f"{connections} connections: {1000 * mean:.2f} ms of CPU time a scrape")
        assert 0 < mean < SCRAPE_SECONDS

        # More work than fits into the test. The work ends when the process exits.
        for client in of_lane.values():
            client.sendall(b"GET /work?ops=1000000000000 HTTP/1.1\r\nHost: test\r\n\r\n")
        held = ["/work"] * len(of_lane)
        eventually(lambda: polled() == held, "every lane held")
        assert scrape() == connections
        assert polled() == held, "to this moment"


@pytest.fixture
def pushed() -> Iterator[Collector]:
    with collector() as running:
        yield running


def pushing(start: Callable[..., Server], endpoint: str, interval: str) -> Server:
    """Pushes metrics and shuts down immediately."""
    flags = ("--otlp.metrics-endpoint", endpoint, "--otlp.metrics-interval", interval)
    return start(*flags, "--drain.settle", "0s", "--lanes", "1")


def end(server: Server) -> None:
    server.terminate()
    assert server.end()[0] == 0


def of(points: list[Point], name: str, **labels: str) -> Point:
    """The single point with this name and these attributes."""
    (point,) = (p for p in points if p.name == name and labels.items() <= p.attributes.items())
    return point


def test_a_collector_gets_what_the_admin_port_shows(
    start: Callable[..., Server], pushed: Collector
) -> None:
    before = time.time_ns()
    server = pushing(start, pushed.endpoint, "1s")
    assert {ask(server.url, "/div/4").status for _ in range(3)} == {200}
    requests = {"route": "/div/{n}", "method": "GET", "code": "200"}

    def page() -> dict[str, Family]:
        return families(ask(server.admin, "/metrics").body.decode())

    def pushed_between() -> tuple[list[Point], dict[str, Family]] | None:
        """Points that were pushed between two identical scrapes, and one of these scrapes."""
        looked, shown = time.time_ns(), page()
        (points,) = eventually(lambda: [p for p in pushed.metrics[-1:] if p[0].at > looked])
        return (points, shown) if page() == shown else None

    points, shown = eventually(pushed_between, "a request while no series was added")
    values = server.metrics()
    kinds = {p.name: (p.kind, p.description) for p in points}
    assert kinds == {f.name: (f.type, f.help.rstrip(".")) for f in shown.values() if f.samples}
    for name in ("corelane_connections", "corelane_config_info", "corelane_stalls_total"):
        found = [p.attributes for p in points if p.name == name]
        assert sorted(found, key=repr) == sorted(shown[name].samples, key=repr)
    point = of(points, "corelane_requests_total", **requests)
    assert (point.value, point.cumulative, point.unit) == (3, True, "")
    assert before <= point.begun < point.at <= time.time_ns()
    assert point.resource["service.name"] == "corelane-server"
    assert point.resource["service.instance.id"] == "test"
    assert of(points, "corelane_config_body_bytes").unit == "By"
    assert of(points, "corelane_config_connections_per_address").value == float("inf")
    duration = of(points, "corelane_request_duration_seconds", route="/div/{n}")
    assert (duration.unit, duration.cumulative, duration.count) == ("s", True, 3)
    labels = '{lane="0",route="/div/{n}"'
    assert duration.value == values[f"corelane_request_duration_seconds_sum{labels}}}"]
    series = "corelane_request_duration_seconds_bucket{"
    buckets = {
        float(re.search(r'le="([^"]+)"', name)[1]): value
        for name, value in values.items()
        if name.startswith(series) and 'route="/div/{n}"' in name
    }
    # The page is cumulative.
    added = accumulate(duration.buckets.values())
    assert dict(zip(duration.buckets, added, strict=True)) == buckets
    assert {p.begun for p in points if p.kind == "counter"} == {point.begun}
    end(server)


def test_the_last_values_are_sent_at_the_end(
    start: Callable[..., Server], pushed: Collector
) -> None:
    server = pushing(start, f"{pushed.endpoint}/base", "1h")
    assert ask(server.url, "/hello").status == 200
    end(server)
    assert pushed.paths == ["/base/v1/metrics"]
    assert of(pushed.metrics[0], "corelane_requests_total", route="/hello").value == 1


def test_metrics_are_sent_again_to_a_collector_that_has_no_time(
    start: Callable[..., Server], pushed: Collector
) -> None:
    pushed.statuses = [503, 503]
    server = pushing(start, pushed.endpoint, "1s")
    eventually(lambda: pushed.metrics, "metrics")
    # Paths are recorded before metrics.
    assert len(pushed.paths) >= 3
    server.terminate()
    code, log = server.end()
    assert code == 0
    assert log.count("metrics cannot be sent") == log.count("metrics can be sent again") == 1


def test_without_a_collector_nothing_runs_for_it(server: Server) -> None:
    assert "otlp" not in server.threads()
