"""`balancing`: takes every policy of the gateway through every scenario, all at the same time."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.balancing import climb, report
from loadtests.bench.balancing.scenarios import POLICIES, SCENARIOS
from loadtests.bench.balancing.stack import Shape, Stack, end_all
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Stand, Task
from loadtests.bench.experiment.record import Record
from tools import resolve

SHAPES = {
    str(shape): shape
    for shape in (Shape(replicas, gateways) for gateways in (1, 3) for replicas in (2, 3, 4))
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
        return [{"shape": shape, "scenario": name} for shape in shapes for name in scenarios]

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
                        stand.programs, shape, upstream, stand.folder / f"{number}-{shape}-{index}"
                    )
                )
                for index, (name, upstream) in enumerate(POLICIES.items())
            }
            for task in tasks:
                scenario = SCENARIOS[task["scenario"]]
                # Quick runs take the first seed alone, which all have.
                if number <= scenario.seeds:
                    with _watched() as machine:
                        rows = climb.scenario(stacks, scenario, shape, number)
                    yield from ({**task, **row, **machine} for row in rows)

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
