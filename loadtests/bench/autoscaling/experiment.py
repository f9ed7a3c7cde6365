"""`autoscaling`: autoscaling of fleets that no machine here can run, simulated."""

import argparse
import json
import math
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.autoscaling import fleet
from loadtests.bench.autoscaling.courses import COURSES
from loadtests.bench.autoscaling.fleet import Mix, Outcome, Policy, World
from loadtests.bench.autoscaling.policy import Direction
from loadtests.bench.autoscaling.report import page
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Stand, Task
from loadtests.bench.experiment.record import Record

MIXES = ("GET /hello=90%, GET /work=10%:7ms", "GET /hello=80%, GET /work=20%:7ms")
TARGET_MS = 50
LATENCY, UTILISATION = 0.99, 0.7
"""The objective and the target utilisation of the recording rules."""

CPU = 0.7
"""autoscaling.cpuPercent of charts/service."""

CPU_LOW = 0.58
"""The CPU target that every course allows: the lowest of the equal ones."""

EQUAL = "cpu-equal"
"""The highest CPU target, in steps of 2%, that holds as much as the required replicas, or the course's target."""

USED = tuple(n / 100 for n in (*range(5, 60, 5), *range(60, 100, 2), 99))

POINTS = 120
"""Of a line in the plot."""


@dataclass
class Fleet(Stand):
    """What the capacity model says."""

    mixes: tuple[Mix, ...] = ()
    policies: dict[str, Policy] = field(default_factory=dict)
    world: World = field(default_factory=World)


class Autoscaling(Experiment):
    """Each round is another seed of the arrivals."""

    name = "autoscaling"
    title = "Autoscaling of large fleets, simulated"
    help = "autoscaling of 100 and 1,000 replicas under changing load, simulated with the capacity model"
    rounds = 5
    cpus = 1
    together = ("course", "fleet")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--corelane", type=Path, metavar="PROGRAM", help="another build of corelane"
        )

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            {"course": course.name, "fleet": size, "policy": name}
            for course in COURSES
            for size in ("100", "1000")
            for name in ("required", "busy", "cpu", "cpu-low", EQUAL)
        ]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[Fleet]:
        program = plan.options.corelane and plan.options.corelane.resolve()
        if not program:
            program = builds.build(["corelane-cli"], plan.profile) / "corelane"
        mixes = tuple(modelled(program, mix) for mix in MIXES)
        busy = asked(program, MIXES[0], "--rps=10000")["hpa"]["lane_busy_ratio"]
        world = World()
        facts = {
            "limit": mixes[0].limit(world.judged),
            "allowed": mixes[0].allowed,
            "busy": busy,
            "lane_ms": [1e3 * mix.lane_seconds for mix in mixes],
        }
        yield Fleet(plan, (), facts, builds.describe(), mixes, policies(busy), world)

    def measure_group(self, stand: Fleet, tasks: Sequence[Task], number: int) -> Iterator[Row]:
        course = next(each for each in COURSES if each.name == tasks[0]["course"])
        size = int(tasks[0]["fleet"])
        least = fleet.clairvoyant(stand.world, course, size, stand.mixes)

        def run(policy: Policy) -> Outcome:
            return fleet.run(stand.world, course, policy, size, stand.mixes, number)

        required = run(stand.policies["required"])
        for task in tasks:
            if task["policy"] == EQUAL:
                wanted = min(course.target or 1.0, required.share)
                target, found = equal(run, wanted)
                task = {**task, "cpu_target": target}
            else:
                found = run(stand.policies[task["policy"]])
            yield {**task, **row(found, sum(least)), **lines(found, least)}

    def brief(self, row: Row) -> str:
        return f"{row['in_time']:.2%} in time, {row['cost']:.2f} times the fewest replica-seconds"

    def page(self, record: Record) -> Page:
        return page(self.title, record)


def policies(busy: float) -> dict[str, Policy]:
    """As `corelane capacity --hpa` writes them, and the default of Kubernetes."""
    return {
        "required": Policy(fleet.by_required, down=Direction(window=60, percent=50, period=60)),
        "busy": Policy(
            fleet.by_busy(busy), down=Direction(window=300, pods=1, percent=10, period=60)
        ),
        "cpu": Policy(fleet.by_cpu(CPU)),
        "cpu-low": Policy(fleet.by_cpu(CPU_LOW)),
    }


def equal(run: Callable[[Policy], Outcome], wanted: float) -> tuple[float, Outcome]:
    """The highest target of CPU utilisation that holds so much, and its outcome; the lowest if none does."""

    def at(step: int) -> Outcome:
        return run(Policy(fleet.by_cpu(step / 50)))

    low, high = 10, 46
    found = at(low)
    while high - low > 1:
        middle = (low + high) // 2
        tried = at(middle)
        if tried.share >= wanted:
            low, found = middle, tried
        else:
            high = middle
    return low / 50, found


def row(found: Outcome, least: int) -> Row:
    """The figures of an outcome."""
    return {
        "in_time": found.share,
        "shed": found.shed / found.requests,
        "cost": found.seconds / least,
        "reversals": found.reversals,
        "seconds": found.seconds,
    }


def lines(found: Outcome, least: list[int]) -> Row:
    """The replicas over time, for the plot."""
    step = max(1, len(least) // POINTS)
    return {"minutes": step / 60, "counts": found.counts[::step], "least": least[::step]}


def asked(program: Path, mix: str, *flags: str, within: float = TARGET_MS) -> dict:
    """The answer of `corelane capacity`."""
    argv = [program, "capacity", "--requests=50000", "--json"]
    argv += ["--mix", mix, f"--p99={within:g}ms", *flags]
    return json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)


def modelled(program: Path, mix: str) -> Mix:
    """A replica with a mix."""

    def curve(within: float) -> tuple[float, ...]:
        return tuple(
            asked(program, mix, f"--used={100 * used:g}%", within=within)["at"]["in_time"]
            for used in USED
        )

    replica = asked(program, mix)["replica"]
    mean, deviation = replica["lane_time_mean_seconds"], replica["lane_time_deviation_seconds"]
    # As pod:corelane_capacity_latency_used:ratio.
    residual = (mean**2 + deviation**2) / (2 * mean)
    allowed = 1 + residual * math.log(1 - LATENCY) / (TARGET_MS / 1e3 - mean)
    halves = curve(TARGET_MS / 2)
    return Mix(mean, USED, curve(TARGET_MS), halves, min(UTILISATION, allowed))
