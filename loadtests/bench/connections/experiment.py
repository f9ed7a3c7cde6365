"""`connections`: what idle, moving and slow connections cost, and what happens when all come at once."""

import argparse
import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from loadtests.bench import networks
from loadtests.bench.connections.climb import Climb, Memory
from loadtests.bench.connections.hot import Hot
from loadtests.bench.connections.ladder import AtOnce, Held
from loadtests.bench.connections.part import ConnectionsStand, Part, Rows
from loadtests.bench.connections.servers import certificate
from loadtests.bench.connections.tuned import Tuned
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import calibrate
from loadtests.bench.experiment.page import LEGEND, Page
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Task
from loadtests.bench.experiment.record import Record
from tools import table, versions
from tools.errors import ToolError

PARTS: dict[str, Part] = {
    part.name: part for part in (Memory(), Climb(), Hot(), Held(), AtOnce(), Tuned())
}


class Connections(Experiment):
    """Dispatches to its parts, each of which belongs to a scenario."""

    name = "connections"
    title = "Many connections"
    help = "idle, moving and slow connections, and thousands at once"
    rounds = 5
    seconds = 1.5
    root = True
    together = ("scenario", "part")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--share",
            type=float,
            metavar="N",
            help="numbers of connections, in the usual ones; default: 1, with --quick 0.2",
        )
        parser.add_argument(
            "--tuner", type=Path, metavar="PROGRAM", help="another build of node-tuner"
        )

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            {"scenario": part.scenario, "part": part.name, "arm": arm}
            for part in PARTS.values()
            for arm in part.arms
        ]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[ConnectionsStand]:
        parts = [PARTS[name] for name in dict.fromkeys(task["part"] for task in tasks)]
        # All is obtained before the network is left.
        programs = _programs(plan, parts)
        cpus = servers.first_cpus(2)
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as folder,
            networks.own(),
        ):
            stand = ConnectionsStand(plan, cpus, programs=programs, folder=Path(folder))
            if "openssl" in programs.tools:
                stand.pem = certificate(programs.tools["openssl"], stand.folder)
            if any(part.works for part in parts):
                stand.work = calibrate(programs, cpus, plan.seconds(1.0, least=0.3))
                stand.facts["work"] = asdict(stand.work)
            for part in parts:
                part.prepare(stand)
            stand.facts["share"] = stand.share
            stand.facts["processes"] = networks.most_connections()
            stand.versions = _versions(programs)
            yield stand

    def measure_group(
        self, stand: ConnectionsStand, tasks: Sequence[Task], number: int
    ) -> Iterator[Row]:
        part = PARTS[tasks[0]["part"]]
        if number > part.rounds_of(stand.plan):
            return
        arms = [task["arm"] for task in tasks]
        found = part.measure(stand, random.Random(number).sample(arms, len(arms)), number)
        for row in found:
            yield {**tasks[0], "line": row["arm"], **row}

    def brief(self, row: Row) -> str:
        return PARTS[row["part"]].brief(row)

    def page(self, record: Record) -> Page:
        page = Page(self.title, record, LEAD, LEGEND)
        found = [PARTS[name] for name in record.labels("part")]
        page.section("Reading")
        sentences = [one for part in found for one in part.reading(Rows(record, part.name))]
        page.points([*sentences, *page.quality()])
        for part in found:
            page.section(part.title, part.method.format(**record.facts))
            part.report(page, Rows(record, part.name))
        page.section("The run", METHOD.format(*record.cpus, **record.facts))
        return page


def _programs(plan: Plan, parts: Sequence[Part]) -> Programs:
    wanted = dict.fromkeys(["ip", *(name for part in parts for name in part.tools)])
    tuner, floor = (wanted.pop(name, "") is None for name in ("node-tuner", "floor"))
    peers = ["peers"] if floor else []
    found = builds.obtain(plan.server, plan.profile, *peers, tools=wanted)
    if tuner:
        # It only prints what it knows, so it need not be optimised.
        given = plan.options.tuner and plan.options.tuner.resolve()
        found.tools["node-tuner"] = given or builds.build(["node-tuner"], "dev") / "node-tuner"
    argv = [found.server, "--park-after", "off", "--check"]
    if subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        raise ToolError(f"--server {found.server}: it has no --park-after; give a newer build")
    return found


def _versions(programs: Programs) -> dict[str, str]:
    ours = builds.locked()
    found = {name: ours[name] for name in ("corelane", "hyper", "tokio", "rustls")}
    for name in sorted({"nginx", "ab", "envoy"} & programs.tools.keys()):
        found[name] = versions.remembered(programs.tools[name], table.find(name))
    return found


LEAD = "The concepts: [connections](../connections.md), [idle connections](../idle-connections.md)."

METHOD = """\
Everything runs in a network namespace of its own, over loopback, with an accept queue of 16,384 and the sysctls of
the node tuner's profile web-10k. Numbers of connections are {share:g} times the usual ones. The limit of open files
allows at most {processes:,} connections per process here, so more need more replicas, gateways and generators.
Servers have CPU {0} and their clients CPU {1}, unless stated otherwise. The order of the arms within a round is
random."""
