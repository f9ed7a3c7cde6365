"""`connections`: measures the cost of idle, moving and slow connections, and of many connections at
once."""

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loadtests.bench import networks
from loadtests.bench.connections.base import ConnectionsBed, Part
from loadtests.bench.connections.idle import Climb, Memory
from loadtests.bench.connections.ladder import AtOnce, Held
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Plan, Row, Task
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import certificate
from tools import table, versions

PARTS: dict[str, Part] = {part.name: part for part in (Memory(), Climb(), Held(), AtOnce())}


class Connections(Experiment):
    name = "connections"
    title = "Many connections"
    help = "idle, slow and thousands of simultaneous connections"
    lead = "The method and the conclusions: bench-idle and ladder in docs/results."
    rounds = 5
    seconds = 1.5
    root = True
    together = ("scenario", "part")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--share",
            type=float,
            metavar="N",
            help="factor for the numbers of connections; default: 1, with --quick 0.2",
        )

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            {"scenario": part.scenario, "part": part.name, "arm": arm}
            for part in PARTS.values()
            for arm in part.arms
        ]

    @contextmanager
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[ConnectionsBed]:
        parts = [PARTS[name] for name in dict.fromkeys(task["part"] for task in tasks)]
        # Obtain everything before moving to another network namespace.
        programs = _programs(plan, parts)
        cpus = servers.first_cpus(2)
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, networks.own():
            bed = ConnectionsBed(plan, cpus, programs, folder=Path(folder))
            if "openssl" in programs.tools:
                bed.pem = certificate(programs.tools["openssl"], bed.folder)
            for part in parts:
                part.prepare(bed)
            bed.facts |= {"share": bed.share, "processes": networks.most_connections()}
            bed.versions = _versions(programs)
            yield bed

    def measure_group(
        self, bed: ConnectionsBed, tasks: Sequence[Task], number: int
    ) -> Iterator[Row]:
        part = PARTS[tasks[0]["part"]]
        if number > part.rounds_of(bed.plan):
            return
        arms = [task["arm"] for task in tasks]
        for row in part.measure(bed, random.Random(number).sample(arms, len(arms)), number):
            yield {**tasks[0], "line": row["arm"], **row}

    def brief(self, row: Row) -> str:
        return PARTS[row["part"]].brief(row)

    def report(self, page: Page, record: Record) -> None:
        for part in (PARTS[name] for name in record.labels("part")):
            page.section(part.title)
            part.report(page, record)


def _programs(plan: Plan, parts: Sequence[Part]) -> Programs:
    wanted = dict.fromkeys(["ip", *(name for part in parts for name in part.tools)])
    peers = ["peers"] if wanted.pop("floor", "") is None else []
    return builds.obtain(plan.server, plan.profile, *peers, tools=wanted)


def _versions(programs: Programs) -> dict[str, str]:
    ours = builds.locked()
    found = {name: ours[name] for name in ("corelane", "hyper", "tokio", "rustls")}
    for name in sorted({"nginx", "ab", "envoy"} & programs.tools.keys()):
        found[name] = versions.remembered(programs.tools[name], table.find(name))
    return found
