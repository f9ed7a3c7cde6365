"""`threads`: compares lanes with a shared queue and N threads, and with one thread, for different
numbers of connections and iterations.
"""

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

from loadtests.bench import cpu
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.page import Figure, Labels, Page
from loadtests.bench.experiment.plan import Plan, Row, Task, TestBed
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import Replica, Running, Startable, running

CONNECTIONS = ("1", "20", "100", "1000")

ITERATIONS = {"0": 0, "10k": 10_000, "100k": 100_000, "1M": 1_000_000, "5M": 5_000_000}

SECONDS = {"1M": 0.3, "5M": 0.5}
"""Requests that take milliseconds need longer measurements than the numerous cheap ones."""

BRIEF, WARM_UP = 0.15, 0.06


@dataclass(frozen=True)
class Pool(Startable):
    """An accept loop with a shared queue and this many workers; without workers, it answers
    requests itself.
    """

    workers: int
    name: str = "pool"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        return [str(programs.peers / "pool"), "--listen", address, "--threads", str(self.workers)]


def lanes(count: int, placement: str = "hashed") -> Replica:
    """The lanes are not pinned, because the generator may use the same CPUs. No request times out
    even if 1,000 expensive requests are queued ahead of it.
    """
    flags = [
        word for name in ("request", "header", "stall") for word in (f"--timeouts.{name}", "10m")
    ]
    return Replica((*flags, "--placement", placement), lanes=count, pin="off")


ONE, SIXTEEN, LANES = "one thread", "pool of 16", "2 hashed lanes"

SHAPES = {
    ONE: partial(Pool, 0),
    **{f"pool of {count}": partial(Pool, count) for count in (1, 2, 4, 16)},
    "1 lane": partial(lanes, 1),
    **{
        f"2 {placement} lanes": partial(lanes, 2, placement)
        for placement in ("hashed", "least-loaded")
    },
}

FEW = (ONE, "pool of 2", SIXTEEN, LANES)


@dataclass(frozen=True)
class Setting:
    title: str
    cells: tuple[tuple[str, str], ...]
    shapes: tuple[str, ...] = FEW
    apart: bool = False
    """Whether the server and the generator each have their own CPU instead of sharing two CPUs."""
    neighbours: int = 0


MATRIX = "matrix"

SETTINGS = {
    MATRIX: Setting(
        "Speed-up",
        tuple(product(CONNECTIONS, ITERATIONS)),
        tuple(SHAPES),
    ),
    "one-cpu": Setting(
        "More threads without more CPUs",
        (("1000", "10k"), ("1000", "1M")),
        apart=True,
    ),
    "neighbours": Setting(
        "Next to other programs",
        (("20", "1M"),),
        neighbours=2,
    ),
}

RATE, COST, CORES = "requests_per_second", "cpu_us", "server_cores"

FIGURES = (
    Figure("requests/s", RATE, 0),
    Figure("× one thread", RATE, over={"shape": ONE}),
    Figure("cores", CORES),
    Figure("CPU time, µs", COST, 1),
    Figure("× one thread", COST, over={"shape": ONE}),
)


class Threads(Experiment):
    name = "threads"
    title = "Threads, connections and iterations"
    help = "lanes compared with a shared queue of N threads and with one thread"
    lead = "The method: docs/results/bench-threads.md. The conclusions: docs/threads.md."
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
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[TestBed]:
        programs = builds.obtain(plan.server, plan.profile, "peers")
        yield TestBed(plan, servers.first_cpus(2), programs, versions=builds.describe())

    def measure_group(self, bed: TestBed, tasks: Sequence[Task], number: int) -> Iterator[Row]:
        order = random.Random(number).sample(tasks, len(tasks))
        with computing(SETTINGS[tasks[0]["setting"]].neighbours):
            yield from super().measure_group(bed, order, number)

    def measure(self, bed: TestBed, task: Task, number: int) -> Row:
        setting, iterations = SETTINGS[task["setting"]], task["iterations"]
        cpus = list(bed.cpus)
        server, generator = (cpus[:1], cpus[1:]) if setting.apart else (cpus, cpus)
        warm_up = bed.plan.seconds(WARM_UP, least=0.02)
        options = {
            "connections": task["connections"],
            "ops": ITERATIONS[iterations],
            "seconds": bed.plan.seconds(SECONDS.get(iterations, BRIEF), least=0.1),
            "warm_up": warm_up,
        }
        program = bed.programs.generator
        with (
            running(SHAPES[task["shape"]](), bed.programs, server) as process,
            Generator(program, Place(generator), "visits", process.address, **options) as load,
        ):
            row = visited(process, load, warm_up)
        if setting.neighbours:
            # The computing programs do not count as a disturbance.
            del row["others_cores"]
        return row

    def brief(self, row: Row) -> str:
        return f"{row[RATE]:,.0f}/s, {row[CORES]:.2f} cores, {row['wrong']} wrong"

    def verdicts(self, record: Record) -> Iterator[str]:
        cpus = len(record.cpus)
        found = [
            median(ratios)
            for load, shape in product(_loads(record, MATRIX).values(), SHAPES)
            if shape != ONE and (ratios := FIGURES[1].values(record, {**load, "shape": shape}))
        ]
        if found:
            yield (
                f"The largest median speed-up over one thread on {cpus} CPUs is {max(found):.2f}. "
                f"{sum(times > cpus for times in found)} of {len(found)} medians exceed the number of CPUs."
            )

    def report(self, page: Page, record: Record) -> None:
        page.plot(_plot(record))
        for name, setting in SETTINGS.items():
            loads = _loads(record, name)
            if not loads:
                continue
            page.section(setting.title)
            if name == MATRIX:
                page.figures(HEAD, loads, *_columns(RATE, 2, over={"shape": ONE}))
                page.section("CPU time of a request, µs")
                page.figures(HEAD, loads, *_columns(COST, 1, brief=True))
                page.text("Cores of the server:")
                page.figures(HEAD, loads, *_columns(CORES, 2, brief=True))
                continue
            for title, load in loads.items():
                page.figures(title, page.lines("shape", **load), *FIGURES)


HEAD = "connections × iterations"


def _columns(figure: str, digits: int, **how: object) -> list[Figure]:
    return [Figure(shape, figure, digits, where={"shape": shape}, **how) for shape in SHAPES]


def _loads(record: Record, setting: str) -> dict[str, Labels]:
    labels = product(record.labels("connections"), record.labels("iterations"))
    loads = [{"setting": setting, "connections": each, "iterations": its} for each, its in labels]
    return {
        f"{int(load['connections']):,} × {load['iterations']}": load
        for load in loads
        if record.select(**load)
    }


def visited(process: Running, load: Generator, warm_up: float) -> Row:
    """Measures a load; returns the generator's results and the cores used by each side.

    The load continues while the clocks are read, because waiting requests belong to it.
    """
    load.tell("")
    load.answer()  # The warm-up is over.
    watch = cpu.Watch(process.cpu_seconds)
    found = load.answer()
    # The generator also counts its warm-up.
    measured = found["seconds"] / (found["seconds"] + warm_up)
    generator = found["generator_cpu_seconds"] * measured
    seen = watch.seen(generator)
    rate, cores = found[RATE] or 0.0, seen.pop("cpu_seconds") / seen["wall"]
    return {
        **found,
        **seen,
        RATE: rate,
        CORES: cores,
        "generator_cores": generator / seen["wall"],
        COST: 1e6 * cores / rate if rate else None,
    }


@contextmanager
def computing(count: int) -> Iterator[None]:
    """Runs this many computing programs in the server's session, because the scheduler shares CPUs
    first among sessions if sched_autogroup_enabled is on (sched(7)).
    """
    processes = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _plot(record: Record) -> Plot:
    loads = _loads(record, MATRIX).values()
    panels = [
        Panel(
            [
                Series(
                    one.title,
                    [
                        (int(load["connections"]), one.values(record, load))
                        for load in loads
                        if load["iterations"] == iterations
                    ],
                )
                for one in _columns(RATE, 2, over={"shape": ONE})
            ],
            title=f"{iterations} iterations",
            x="connections",
            y="times one thread",
            kind="lines",
            log="x",
            limits={"CPUs": len(record.cpus)},
        )
        for iterations in record.labels("iterations", setting=MATRIX)
    ]
    return Plot("Requests per second relative to one thread", panels, columns=2)
