"""The series of the admin port, as Prometheus takes them."""

import json
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support import PATIENCE, REPOSITORY, eventually
from support.client import ask
from support.servers import Server

CONNECTIONS = 10_000
"""As many as the server takes unless it is told otherwise."""

SCRAPES = 20

SCRAPE_SECONDS = 0.010
"""CPU time that a scrape may take; it takes less than a tenth of it."""


def classic(text: str) -> str:
    """OpenMetrics as the older text format, which promtool reads: a counter's name ends in _total."""
    counters = re.findall(r"^# TYPE (\w+) counter$", text, re.MULTILINE)
    assert counters
    return re.sub(
        rf"^# (HELP|TYPE) ({'|'.join(counters)}) ", r"# \1 \2_total ", text, flags=re.MULTILINE
    )


def test_promtool_finds_nothing_wrong(server: Server) -> None:
    for path in ("/hello", "/div/4", "/none"):
        ask(server.url, path)
    eventually(lambda: any('phase="write"' in series for series in server.metrics()))
    reply = ask(server.admin, "/metrics")
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    text = reply.body.decode()
    assert text.endswith("# EOF\n")
    argv = [sys.executable, "hack/tools", "run", "promtool", "check", "metrics"]
    check = subprocess.run(
        argv, cwd=REPOSITORY, input=classic(text), capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


@pytest.fixture
def connections() -> Iterator[int]:
    """Connections that this process, and a server with the same limits, may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(CONNECTIONS, hard - 200)  # and what else is open
    if allowed < 4_000:
        pytest.skip(f"at most {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield allowed
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_and_ask(server: Server, count: int, clients: ExitStack) -> dict[int, socket.socket]:
    """Opens connections and asks once on each, several routes in turn; one of each lane."""
    paths = ("/", "/hello", "/div/4", "/work?ops=1", "/static/4k.txt", "/none")
    address = urlsplit(server.url)
    of_lane = {}
    for index in range(count):
        client = socket.create_connection((address.hostname, address.port), timeout=PATIENCE)
        clients.enter_context(client)
        client.sendall(f"GET {paths[index % len(paths)]} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        reply = client.recv(65536)
        lane = re.search(rb"\r\ncorelane-lane: (\d+)\r\n", reply)
        assert lane, reply
        of_lane.setdefault(int(lane[1]), client)
    return of_lane


def cpu_seconds(server: Server, thread: str) -> float:
    """Time on a CPU of a thread: what others do meanwhile is not in it (proc(5), schedstat)."""
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    (task,) = (task for task in tasks if (task / "comm").read_text().strip() == thread)
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def test_a_scrape_costs_little_and_waits_for_no_lane(
    start: Callable[..., Server], connections: int
) -> None:
    server = start("--work.max-ops", "1000000000000")

    def polled() -> list[str | None]:
        """The route that holds each lane."""
        lanes = json.loads(ask(server.admin, "/lanes").body)["lanes"]
        return [lane["polling"] and lane["polling"]["route"] for lane in lanes]

    def scrape() -> float:
        """The connections that a scrape shows."""
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

        # More work for each lane than the test lasts; it ends with the process.
        for client in of_lane.values():
            client.sendall(b"GET /work?ops=1000000000000 HTTP/1.1\r\nHost: test\r\n\r\n")
        held = ["/work"] * len(of_lane)
        eventually(lambda: polled() == held, "every lane held")
        assert scrape() == connections
        assert polled() == held, "to this moment"
