"""`balancing`: takes every policy of the gateway through every scenario, all at the same time."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.balancing import report
from loadtests.bench.balancing.scenarios import (
    LAG_MS,
    LOST_MS,
    ONLY,
    REFERENCE,
    SCENARIOS,
    SLO_MS,
    SLOW_SHARE,
    SLOWEST,
    TRIES,
    WARM_UP,
    WITHOUT_SLOW_LANES,
    Scenario,
    answers,
    fits,
    is_large,
    percentile,
    policies,
    rate,
    recovery,
)
from loadtests.bench.balancing.stack import Shape, Stack, end_all
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Stand, Task
from loadtests.bench.experiment.record import Record
from tools import resolve

SETTLE = 3.0
"""Seconds of moderate load before a scenario, in which weights forget the one before."""

SETTLE_LOAD = 40.0


def _climb(stacks: dict[str, Stack], what: Scenario, shape: Shape, seed: int) -> list[dict]:
    """Its cells: one for each policy and load."""
    stacks = {
        name: stack for name, stack in stacks.items() if what.name in ONLY.get(name, (what.name,))
    }
    for stack in stacks.values():
        stack.tell_all(f"times {what.service_ms[0]} {what.service_ms[1]}")
        stack.tell(f"speed {what.speed}")
    if any(event.line == "start" for event in what.events):
        for stack in stacks.values():
            stack.tell("stop")
        for stack in stacks.values():
            stack.wait_until_healthy(shape.replicas - 1)
    _together(stacks, what, shape, SETTLE_LOAD, SETTLE, seed)
    cells = []
    climbing = set(stacks)
    for load in what.ladder or [what.load]:
        going = {
            name: stack
            for name, stack in stacks.items()
            if not what.ladder or name in climbing or load == REFERENCE
        }
        if not going:
            continue
        for name, cell in _undisturbed(going, what, shape, load, seed).items():
            cells.append({"policy": name, **cell})
            # By both objectives, the present and the former.
            if cell["slowdown"] > SLOWEST and cell["p99_fast"] > SLO_MS:
                climbing.discard(name)
    for stack in stacks.values():
        stack.tell("speed 1")
    return cells


def _undisturbed(
    stacks: dict[str, Stack], what: Scenario, shape: Shape, load: float, seed: int
) -> dict[str, dict]:
    """The cells of a step, which is taken again where the machine was busy with something else."""
    found: dict[str, dict] = {}
    for number in range(TRIES if what.ladder else 1):
        found = _cells(stacks, what, shape, load, seed + 100 * number)
        if max(cell["lag_p99"] for cell in found.values()) <= LAG_MS:
            break
    return found


def _cells(
    stacks: dict[str, Stack], what: Scenario, shape: Shape, load: float, seed: int
) -> dict[str, dict]:
    before = {name: stack.gateway_seconds() for name, stack in stacks.items()}
    reports = _together(stacks, what, shape, load, WARM_UP + what.seconds, seed, what.events)
    return {
        name: _cell(report, what, load, stacks[name].gateway_seconds() - before[name])
        for name, report in reports.items()
    }


def _together(
    stacks: dict[str, Stack],
    what: Scenario,
    shape: Shape,
    load: float,
    seconds: float,
    seed: int,
    events: Iterable = (),
) -> dict[str, dict]:
    """The same arrivals for every policy at the same time; their reports."""
    begun = time.monotonic()
    for stack in stacks.values():
        stack.begin(
            rate=rate(what, load, shape.lanes),
            seconds=seconds,
            work_share=SLOW_SHARE if what.mixed else 0.0,
            seed=1000 * seed + int(load),
        )
    for event in events:
        time.sleep(max(0.0, begun + event.at - time.monotonic()))
        for stack in stacks.values():
            stack.tell(event.line)
    return {name: stack.end() for name, stack in stacks.items()}


def _cell(report: dict, what: Scenario, load: float, gateway_seconds: float) -> dict:
    found = answers(report)
    counted = [each for each in found if each[0] >= WARM_UP * 1000]
    times = [took if right else LOST_MS for _, took, _, right in counted]
    fast, slow = (
        [took if right else LOST_MS for _, took, kind, right in counted if kind == which]
        for which in (False, True)
    )
    p99_fast, p99_slow = (percentile(kind, 0.99) if kind else 0.0 for kind in (fast, slow))
    until = WARM_UP + what.seconds
    return {
        "scenario": what.name,
        "mixed": what.mixed,
        "load": load,
        "requests": report["requests"],
        "p50": percentile(times, 0.50),
        "p99": percentile(times, 0.99),
        "p99_fast": p99_fast,
        "p99_slow": p99_slow,
        "slowdown": what.slowdown(p99_fast, p99_slow),
        "wrong": report["wrong"],
        "faults": report["faults"],
        "recovery": recovery(found, what.over, until) if what.over else None,
        "gateway_us": gateway_seconds / report["requests"] * 1e6,
        "lag_p99": report["lag_us"]["99"] / 1000,
    }


SMALL = [(replicas, gateways) for gateways in (1, 3) for replicas in (2, 3, 4)]
SHAPES = {
    str(shape): shape
    for shape in (
        *(Shape(*each) for each in (*SMALL, (3, 10), (10, 3), (10, 10))),
        Shape(1, 0, lanes_each=4),
    )
}
QUICK = ("3x3",), ("half", "antagonist", "failing")


@dataclass
class BalancingStand(Stand):
    """Programs, and a folder for what they write."""

    programs: Programs | None = None
    folder: Path = Path()


class Balancing(Experiment):
    """A round is a seed; the policies of a shape have replicas and gateways of their own."""

    name = "balancing"
    title = "Balancing policies under failures"
    help = "the balancing policies of the gateway, by the load that they carry under failures"
    rounds = 3
    seconds = 7.0
    quick = 1.0
    together = ("shape",)
    at_once = 3

    def tasks(self, plan: Plan) -> list[Task]:
        shapes, scenarios = QUICK if plan.quick and not plan.only else (SHAPES, SCENARIOS)
        return [
            {"shape": shape, "scenario": name}
            for shape in shapes
            for name in scenarios
            if fits(name, SHAPES[shape].replicas, SHAPES[shape].gateways)
        ]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[BalancingStand]:
        # The replicas are peers, so no server is built.
        peers = builds.build(["load-generator", "virtual-replica"], plan.profile)
        programs = Programs(Path(), peers, resolve.ensure(["helm", "envoy", "supervisord"]))
        folder = Path(tempfile.mkdtemp(prefix="bench-balancing-"))
        try:
            yield BalancingStand(plan, (), programs=programs, folder=folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def measure_group(
        self, stand: BalancingStand, tasks: Sequence[Task], number: int
    ) -> Iterator[Row]:
        shape = SHAPES[tasks[0]["shape"]]
        with ExitStack() as stack:
            stacks = {
                name: stack.enter_context(
                    Stack(
                        stand.programs,
                        shape,
                        upstream,
                        stand.folder / f"{number}-{shape}-{index}",
                        held=name in WITHOUT_SLOW_LANES,
                    )
                )
                for index, (name, upstream) in enumerate(
                    policies(shape.replicas, shape.gateways).items()
                )
            }
            for task in tasks:
                scenario = SCENARIOS[task["scenario"]]
                # Quick runs take the first seed alone, which all have.
                if number <= scenario.seeds:
                    with _watched() as machine:
                        rows = _climb(stacks, scenario, shape, number)
                    yield from ({**task, **row, **machine} for row in rows)

    def alone(self, tasks: Sequence[Task]) -> bool:
        """Large shapes nearly fill a small machine; four lanes need few but exact wake-ups."""
        shape = SHAPES[tasks[0]["shape"]]
        return is_large(shape.replicas, shape.gateways) or not shape.gateways

    def abort(self) -> None:
        end_all()

    def brief(self, row: Row) -> str:
        wrong = f", {row['wrong']} wrong" if row["wrong"] else ""
        return f"{row['policy']} at {row['load']:g}%: p99 {row['p99']:.0f} ms{wrong}"

    def page(self, record: Record) -> Page:
        return report.page(self.title, record)

    def failed(self, record: Record) -> int:
        """Wrong answers are part of what is measured."""
        return 0


@contextmanager
def _watched() -> Iterator[dict[str, float]]:
    """How busy the machine was, as a share of all CPUs."""
    begun, before, found = time.monotonic(), cpu.Machine.now(), {}
    yield found
    after, cores = cpu.Machine.now(), os.cpu_count() or 1
    wall = (time.monotonic() - begun) * cores
    found["busy"] = (after.busy - before.busy) / wall
    found["stolen"] = (after.stolen - before.stolen) / wall
