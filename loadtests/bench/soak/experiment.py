"""`soak`: loads one server for minutes with clients that connect and disconnect; memory and
descriptors must stay flat.
"""

import argparse
import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from loadtests.bench.experiment import builds
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Plan, Row, Task, TestBed
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import (
    CORELANE,
    STATIC,
    Replica,
    Running,
    metrics,
    running,
    total,
)
from loadtests.bench.soak.clients import Clients
from loadtests.usage import positive
from stack import eventually, in_time
from stack.http import replies
from tools.errors import ToolError

GAUGES = ("corelane_connections", "corelane_requests_in_flight")

GROWTH = 1.1
SLACK = 2 << 20
"""Memory is flat if the median of the last third of the samples is at most GROWTH times the middle
third's median, plus SLACK bytes. The first third is the warm-up.
"""

SETTLE = 30.0
"""Seconds for the server to notice that all clients have left, drain and exit."""

FLAGS = ("--static.root", str(STATIC), "--drain.settle", "0s")


@dataclass(frozen=True)
class Watched:
    process: Running
    admin: str

    def sample(self, at: float) -> dict[str, float]:
        """procfs(5) values and the metrics, `at` this many seconds after the start of the load."""
        shown = metrics(self.admin)
        connections, in_flight = (int(total(shown, name)) for name in GAUGES)
        return {
            "at": round(at, 3),
            "memory": 1024 * self.process.resident_kib(),
            "descriptors": self.descriptors(),
            "connections": connections,
            "in_flight": in_flight,
        }

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.process.pid}/fd"))

    def least_descriptors(self) -> int:
        """Minimum descriptor count within one second, because a probe's connection stays open for a
        moment.
        """
        least = self.descriptors()
        for _ in range(20):
            time.sleep(0.05)
            least = min(least, self.descriptors())
        return least


class Soak(Experiment):
    name = "soak"
    title = "Clients that come and go"
    help = "checks that memory and descriptors stay flat while clients connect and disconnect"
    rounds = 1
    seconds = 300.0
    cpus = 1

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--clients",
            type=positive,
            default=100,
            metavar="N",
            help="concurrent clients; default: 100",
        )
        parser.add_argument("--seed", type=int, default=1, help="random seed; default: 1")

    def tasks(self, plan: Plan) -> list[Task]:
        return [{"server": CORELANE}]

    @contextmanager
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[TestBed]:
        built = plan.server or builds.build([CORELANE], plan.profile) / CORELANE
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        yield TestBed(plan, cpus, Programs(built), {"seconds": plan.seconds(self.seconds)})

    def measure(self, bed: TestBed, task: Task, number: int) -> Row:
        server = Replica(FLAGS, lanes=2, pin="off")
        with running(server, bed.programs, list(bed.cpus)) as process:
            return _soaked(bed, Watched(process, server.admin))

    def brief(self, row: Row) -> str:
        return summary(row)

    def ended(self, record: Record) -> int:
        return 1 if broken(record.rows[0]) else 0

    def page(self, record: Record) -> Page:
        (row,) = record.rows
        reasons, about = broken(row), record.plan["options"]
        page = Page(self.title, record)
        verdict = "Failed" if reasons else "Passed"
        page.text(f"**{verdict}:** {record.facts['seconds']:g} s, {summary(row)}.")
        page.points(reasons)
        page.text(f"{about['clients']} clients at a time, seed {about['seed']}.")
        came = ("came", lambda kind: f"{row['clients'][kind]:,}")
        page.table("clients", sorted(row["clients"]), came)
        page.plot(_plot(row))
        return page


def _soaked(bed: TestBed, server: Watched) -> Row:
    options, seconds = bed.plan.options, bed.facts["seconds"]
    # The server has not opened all its descriptors until all lanes listen.
    eventually(lambda: replies(f"http://{server.admin}", "/readyz"), "every lane listens")
    start = server.least_descriptors()
    clients = Clients(server.process.port, options.seed, options.clients)
    process, begun = server.process.process, time.monotonic()
    stop = threading.Event()
    samples: list[dict] = []

    def watch() -> None:
        while not stop.wait(min(1.0, seconds / 30)) and process.running:
            samples.append(server.sample(time.monotonic() - begun))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        asyncio.run(clients.run(begun + seconds))
    finally:
        stop.set()
        watcher.join()

    def rests() -> bool:
        found = server.sample(0.0)
        return found["descriptors"] <= start and not found["connections"] + found["in_flight"]

    # If the number never settles, the check below fails.
    in_time(rests, SETTLE, 0.1)
    after = server.sample(time.monotonic() - begun)
    after["descriptors"] = server.least_descriptors()
    process.signal(signal.SIGTERM)
    in_time(lambda: not process.running, SETTLE)
    return {
        "clients": dict(clients.done),
        "failures": dict(clients.failures),
        "descriptors_at_start": start,
        "after": after,
        "exit_code": process.status,
        "samples": samples,
    }


def memory(row: Row) -> tuple[float, float]:
    values = [sample["memory"] for sample in row["samples"]]
    third = len(values) // 3
    if third == 0:
        raise ToolError(f"only {len(values)} samples: the soak was too short")
    return median(values[third : 2 * third]), median(values[2 * third :])


def broken(row: Row) -> list[str]:
    middle, last = memory(row)
    after, start = row["after"], row["descriptors_at_start"]
    wrong = sum(row["failures"].values())
    often = ", ".join(f"{n} x {what}" for what, n in Counter(row["failures"]).most_common(3))
    rules = {
        f"memory grew from {_mib(middle)} to {_mib(last)} MiB": last > GROWTH * middle + SLACK,
        f"{after['descriptors']} descriptors are open at the end, {start} at the start": (
            after["descriptors"] > start
        ),
        f"{after['connections']} connections are open without a client": after["connections"] != 0,
        f"{after['in_flight']} requests are in flight without a client": after["in_flight"] != 0,
        f"{wrong} good clients did not get every reply: {often}": wrong != 0,
        f"the server ended with {row['exit_code']}": row["exit_code"] != 0,
    }
    return [reason for reason, found in rules.items() if found]


def summary(row: Row) -> str:
    middle, last = memory(row)
    samples = row["samples"]
    open_at_most = max(sample["connections"] for sample in samples)
    return (
        f"{sum(row['clients'].values()):,} connections, at most {open_at_most} open; "
        f"memory {_mib(samples[0]['memory'])} MiB at first, {_mib(middle)} in the middle third, "
        f"{_mib(last)} in the last; descriptors {row['descriptors_at_start']} before, "
        f"{row['after']['descriptors']} after"
    )


def _plot(row: Row) -> Plot:
    def panel(name: str, y: str, scale: float = 1.0) -> Panel:
        points = [(sample["at"], [scale * sample[name]]) for sample in row["samples"]]
        return Panel([Series(name, points)], y=y, x="seconds", kind="lines")

    panels = [panel("memory", "memory, MiB", 2**-20), panel("descriptors", "open descriptors")]
    return Plot("Memory and descriptors over time", panels)


def _mib(value: float) -> str:
    return f"{value / (1 << 20):.1f}"
