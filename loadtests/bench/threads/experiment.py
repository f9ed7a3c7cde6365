"""`threads`: lanes, a shared queue with N threads, and one thread, by connections and iterations."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from loadtests.bench import cpu
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Stand, Task
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import Running, running
from loadtests.bench.threads import report
from loadtests.bench.threads.report import LANES, ONE, SHAPES, SIXTEEN, TWO

CONNECTIONS = ("1", "20", "100", "1000")

ITERATIONS = {"0": 0, "10k": 10_000, "100k": 100_000, "1M": 1_000_000, "5M": 5_000_000}

SECONDS = {"1M": 0.3, "5M": 0.5}
"""Requests that take milliseconds need longer than the others, of which there are many in a short time."""

BRIEF, WARM_UP = 0.15, 0.06


@dataclass(frozen=True)
class Setting:
    """What is compared under which loads, and the CPUs that the server has."""

    cells: tuple[tuple[str, str], ...]
    """Connections and iterations."""
    shapes: tuple[str, ...] = (ONE.name, TWO.name, SIXTEEN.name, LANES.name)
    apart: bool = False
    """The server has one CPU and the generator the other; otherwise they share both."""
    neighbours: int = 0
    """Programs that compute on the same CPUs."""


SETTINGS = {
    report.MATRIX: Setting(
        tuple((count, iterations) for count in CONNECTIONS for iterations in ITERATIONS),
        tuple(SHAPES),
    ),
    report.ONE_CPU: Setting((("1000", "10k"), ("1000", "1M")), apart=True),
    report.NEIGHBOURS: Setting((("20", "1M"),), neighbours=2),
}


@dataclass
class ThreadsStand(Stand):
    """The programs."""

    programs: Programs | None = None


class Threads(Experiment):
    """All shapes under a load are measured one after the other, since ratios are between them."""

    name = "threads"
    title = "Threads, connections and iterations"
    help = "lanes, a shared queue with N threads and one thread, by connections and iterations"
    rounds = 3
    seconds = BRIEF
    together = ("setting", "connections", "iterations")

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            {"setting": name, "connections": count, "iterations": iterations, "shape": shape}
            for name, setting in SETTINGS.items()
            for count, iterations in setting.cells
            for shape in setting.shapes
        ]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[ThreadsStand]:
        programs = builds.obtain(plan.server, plan.profile, "peers")
        yield ThreadsStand(
            plan,
            servers.first_cpus(2),
            versions=builds.describe(),
            programs=programs,
        )

    def measure_group(
        self, stand: ThreadsStand, tasks: Sequence[Task], number: int
    ) -> Iterator[Row]:
        order = random.Random(number).sample(tasks, len(tasks))
        with computing(SETTINGS[tasks[0]["setting"]].neighbours):
            yield from super().measure_group(stand, order, number)

    def measure(self, stand: ThreadsStand, task: Task, number: int) -> Row:
        setting, iterations = SETTINGS[task["setting"]], task["iterations"]
        cpus = list(stand.cpus)
        server, generator = (cpus[:1], cpus[1:]) if setting.apart else (cpus, cpus)
        warm_up = stand.plan.seconds(WARM_UP, least=0.02)
        options = {
            "connections": task["connections"],
            "ops": ITERATIONS[iterations],
            "seconds": stand.plan.seconds(SECONDS.get(iterations, BRIEF), least=0.1),
            "warm_up": warm_up,
        }
        program = stand.programs.generator
        with (
            running(SHAPES[task["shape"]], stand.programs, server) as process,
            Generator(program, Place(generator), "visits", process.address, **options) as load,
        ):
            row = visited(process, load, warm_up)
        if setting.neighbours:
            # They are not what disturbs it.
            del row["others_cores"]
        return row

    def brief(self, row: Row) -> str:
        return (
            f"{row['requests_per_second']:,.0f}/s, {row['server_cores']:.2f} cores, "
            f"{row['wrong']} wrong"
        )

    def page(self, record: Record) -> Page:
        return report.page(self.title, record)


def visited(process: Running, load: Generator, warm_up: float) -> Row:
    """The generator's figures, and the cores that each side had in the measured part.

    The load continues while the clocks are read: requests that wait belong to it.
    """
    load.tell("")
    load.answer()  # The warm-up is over.
    used, machine, begun = process.cpu_seconds(), cpu.Machine.now(), time.monotonic()
    found = load.answer()
    wall = time.monotonic() - begun
    after = cpu.Machine.now()
    server = (process.cpu_seconds() - used) / wall
    # The generator counts its warm-up too.
    generator = found["generator_cpu_seconds"] / (wall + warm_up)
    rate = found["requests_per_second"] or 0.0
    return {
        **found,
        "requests_per_second": rate,
        "server_cores": server,
        "generator_cores": generator,
        "cpu_us": 1e6 * server / rate if rate else None,
        "others_cores": max(0.0, (after.busy - machine.busy) / wall - server - generator),
        "stolen_cores": (after.stolen - machine.stolen) / wall,
    }


@contextmanager
def computing(count: int) -> Iterator[None]:
    """So many programs that only compute, in the session of the server: the scheduler shares CPUs
    first among sessions where sched_autogroup_enabled is on (sched(7))."""
    processes = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
