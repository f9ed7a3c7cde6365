"""`soak`: one server, clients that come and go for minutes; memory and descriptors stay flat."""

import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.soak_clients import HOST, Clients
from local.settings import REPOSITORY
from tools import progress
from tools.errors import ToolError

STATIC = REPOSITORY / "services" / "server" / "static"

GROWTH = 1.1
SLACK = 2 << 20
"""Memory is flat when the median of the last third of the samples is at most GROWTH times that of
the middle third, and SLACK bytes: the first third is the warm-up."""

SETTLE = 30.0
"""Seconds within which the server notices that all clients have left, drains and ends."""

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks the server itself, whatever `http_proxy` says."""

GAUGES = ("corelane_connections", "corelane_requests_in_flight")


@dataclass(frozen=True)
class Plan:
    """How long, how many clients at a time, and which."""

    seconds: float
    clients: int
    seed: int


@dataclass(frozen=True)
class Sample:
    """The server at one moment; `at` is in seconds since the start of the load."""

    at: float
    memory: int
    descriptors: int
    connections: int
    in_flight: int


@dataclass(frozen=True)
class Server:
    """The process under load."""

    process: subprocess.Popen
    port: int
    admin: int

    def sample(self, at: float) -> Sample:
        """Reads procfs(5) and the metrics."""
        descriptors = self.descriptors()
        connections, in_flight = (self.gauge(name) for name in GAUGES)
        return Sample(at, self.memory(), descriptors, connections, in_flight)

    def ready(self) -> bool:
        """Whether every lane listens."""
        try:
            with DIRECT.open(f"http://{HOST}:{self.admin}/readyz", timeout=20):
                return True
        except OSError:
            return False

    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Open files, sockets included."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def least_descriptors(self) -> int:
        """The least of a second: the connection of a probe is still open for a moment."""
        least = self.descriptors()
        for _ in range(20):
            time.sleep(0.05)
            least = min(least, self.descriptors())
        return least

    def gauge(self, name: str) -> int:
        """The sum of a gauge over the lanes."""
        with DIRECT.open(f"http://{HOST}:{self.admin}/metrics", timeout=20) as reply:
            lines = reply.read().decode().splitlines()
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{"))


def main(plan: Plan, out: Path, program: Path) -> int:
    """Runs the soak on `program` and writes its record; 1 when something did not hold."""
    out.mkdir(parents=True, exist_ok=True)
    with _server(program) as server:
        record = {"plan": asdict(plan), "machine": machine.describe(), **_run(plan, server)}
    record["failed"] = failed(record)
    (out / "soak.json").write_text(json.dumps(record, indent=1) + "\n")
    print(summary(record))
    for reason in record["failed"]:
        print(f"  {reason}")
    progress.say("results", f"in {out}/soak.json")
    return 1 if record["failed"] else 0


@contextlib.contextmanager
def _server(program: Path) -> Iterator[Server]:
    """A server on free ports, killed at the end if it has not ended."""
    free = f"{HOST}:0"
    argv = [program, "--listen", free, "--admin.listen", free, "--static.root", STATIC]
    argv += ["--lanes", "2", "--pin", "off", "--drain.settle", "0s", "--log.format", "json"]
    environment = {name: text for name, text in os.environ.items() if "CORELANE_" not in name}
    with tempfile.NamedTemporaryFile("r") as log, open(log.name, "w") as sink:
        process = subprocess.Popen(argv, stderr=sink, env=environment)
        try:
            _wait(lambda: "listening" in Path(log.name).read_text() or process.poll() is not None)
            lines = map(json.loads, log.read().splitlines())
            try:
                said = next(line for line in lines if line["message"] == "listening")
            except (StopIteration, ValueError, KeyError) as error:
                raise ToolError(
                    f"{program} does not start: {Path(log.name).read_text()}"
                ) from error
            ports = (int(said[name].rsplit(":", 1)[1]) for name in ("address", "admin"))
            yield Server(process, *ports)
        finally:
            process.kill()
            process.wait()


def _run(plan: Plan, server: Server) -> dict:
    """Load and samples, then what is left when all clients are gone."""
    # Until all lanes listen, not all descriptors of the server are open.
    _wait(server.ready)
    start = server.least_descriptors()
    clients = Clients(server.port, plan.seed, plan.clients)
    begun = time.monotonic()
    stop = threading.Event()
    samples: list[Sample] = []

    def watch() -> None:
        interval = min(1.0, plan.seconds / 30)
        while not stop.wait(interval) and server.process.poll() is None:
            samples.append(server.sample(round(time.monotonic() - begun, 3)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        asyncio.run(clients.run(begun + plan.seconds))
    finally:
        stop.set()
        watcher.join()
    _wait(lambda: server.descriptors() <= start and not any(map(server.gauge, GAUGES)))
    after = server.sample(round(time.monotonic() - begun, 3))
    after = replace(after, descriptors=server.least_descriptors())
    server.process.send_signal(signal.SIGTERM)
    _wait(lambda: server.process.poll() is not None)
    return {
        "clients": dict(clients.done),
        "failures": dict(clients.failures),
        "descriptors_at_start": start,
        "after": asdict(after),
        "exit_code": server.process.poll(),
        "samples": [asdict(sample) for sample in samples],
    }


def _wait(check: Callable[[], bool]) -> None:
    """Waits until `check` holds; the caller judges what there is when it never does."""
    deadline = time.monotonic() + SETTLE
    while not check() and time.monotonic() < deadline:
        time.sleep(0.1)


def memory(record: dict) -> tuple[float, float]:
    """Medians of the middle and of the last third of the samples."""
    values = [sample["memory"] for sample in record["samples"]]
    third = len(values) // 3
    if third == 0:
        raise ToolError(f"only {len(values)} samples: the soak was too short")
    return statistics.median(values[third : 2 * third]), statistics.median(values[2 * third :])


def failed(record: dict) -> list[str]:
    """What did not hold."""
    middle, last = memory(record)
    after, start = record["after"], record["descriptors_at_start"]
    wrong = sum(record["failures"].values())
    often = ", ".join(f"{n} x {what}" for what, n in Counter(record["failures"]).most_common(3))
    rules = {
        f"memory grew from {_mib(middle)} to {_mib(last)} MiB": last > GROWTH * middle + SLACK,
        f"{after['descriptors']} descriptors are open at the end, {start} at the start": (
            after["descriptors"] > start
        ),
        f"{after['connections']} connections are open without a client": after["connections"] != 0,
        f"{after['in_flight']} requests are in flight without a client": after["in_flight"] != 0,
        f"{wrong} good clients did not get every reply: {often}": wrong != 0,
        f"the server ended with {record['exit_code']}": record["exit_code"] != 0,
    }
    return [reason for reason, broken in rules.items() if broken]


def summary(record: dict) -> str:
    """One line."""
    middle, last = memory(record)
    samples = record["samples"]
    open_at_most = max(sample["connections"] for sample in samples)
    return (
        f"soak {'failed' if record['failed'] else 'passed'}: {record['plan']['seconds']:g} s, "
        f"{sum(record['clients'].values()):,} connections, at most {open_at_most} open; "
        f"memory {_mib(samples[0]['memory'])} MiB at first, {_mib(middle)} in the middle third, "
        f"{_mib(last)} in the last; descriptors {record['descriptors_at_start']} before, "
        f"{record['after']['descriptors']} after"
    )


def _mib(value: float) -> str:
    return f"{value / (1 << 20):.1f}"
