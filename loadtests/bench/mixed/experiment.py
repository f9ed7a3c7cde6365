"""`mixed`: 1,000 users who each request a page, then load and save a project."""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.page import Figure, Lines, Page
from loadtests.bench.experiment.plan import Plan, Row, Task, TestBed
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import STATIC, Running, metrics, running, total
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import GATEWAY, Endpoint
from loadtests.bench.mixed.databases import TOKEN, Database, Sqlite, postgres, replica
from stack.postgres_home import ELSEWHERE

PAGE = STATIC / "4k.txt"

MODES = {
    "one-lane": {"lanes": 1, "flags": ("--limits.slots", "1024")},
    "one-slot": {"lanes": "auto", "flags": ("--limits.slots", "1")},
    "many-many": {"lanes": "auto", "flags": ()},
}
"""Settings of each mode; one slot allows one request at a time on a lane."""

CONNECTIONS = 4

USERS, TIMES = 1000, 10
"""Users, and how often each requests its page, loads and saves in the closed loop."""

QUICK_USERS, QUICK_TIMES = 60, 3

KINDS = ("page", "load", "save")

ALONE = 1.0
"""Length of the open loop with only pages."""

RATE_SHARE = 0.5
"""Open-loop rate, relative to the throughput that the closed loop has just reached."""

WRITER = "database-writer"

SYNCS, BYTES = 100, 6_000

PHASE, OPERATION = "corelane_request_phase_seconds", "corelane_database_operation_duration_seconds"
STEPS = ("accept", "queue", "handler", "write")
ROUTES = {"page": 'route="/static/{*path}"', "project": 'route="/projects/{id}"'}

HISTOGRAMS = {
    **{
        f"{kind} {step}": (PHASE, route, f'phase="{step}"')
        for kind, route in ROUTES.items()
        for step in STEPS
    },
    "load": (OPERATION, 'operation="get"'),
    "save": (OPERATION, 'operation="replace"'),
    "wait for a connection": ("corelane_database_connection_wait_seconds",),
    "commit": ("corelane_database_commit_duration_seconds",),
}
"""Name and labels of the server's own histograms, by their names in a row."""


@dataclass
class MixedBed(TestBed):
    databases: dict[str, Database] = field(default_factory=dict)


class Mixed(Experiment):
    """Each task has three loops: at full speed, at half that rate, and with pages only."""

    name = "mixed"
    title = "A page, a load and a save"
    help = "1,000 users who load pages and save projects, by database, path and mode"
    lead = "The method and the published figures: docs/results/bench-mixed.md."
    rounds = 3
    seconds = 2.5

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            {"database": database, "path": path, "mode": mode}
            for database, path, mode in product(
                ("sqlite", "postgres"), ("direct", "gateway"), MODES
            )
        ]

    @contextmanager
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[MixedBed]:
        programs = builds.obtain(plan.server, plan.profile, tools=("helm", "supervisord", "envoy"))
        versions = builds.describe()
        needed = any(task["database"] == "postgres" for task in tasks)
        users, times = (QUICK_USERS, QUICK_TIMES) if plan.quick else (USERS, TIMES)
        with postgres() if needed else nullcontext() as started:
            known: dict[str, Database] = {"sqlite": Sqlite()}
            if started:
                known["postgres"] = started
                versions["PostgreSQL"] = started.version()
            facts = {"users": users, "times": times, "sync_ms": _sync_ms()}
            cpus = tuple(sorted(os.sched_getaffinity(0)))
            yield MixedBed(plan, cpus, programs, facts, versions, databases=known)

    def measure(self, bed: MixedBed, task: Task, number: int) -> Iterator[Row]:
        with _serving(bed, task) as served, served.users(bed, number) as load:
            closed = served.part(load, loop="closed", kinds=KINDS, rounds=bed.facts["times"])
            yield closed
            rate = RATE_SHARE * closed["requests_per_second"]
            load.go_first()
            for loop, kinds, length in (("open", KINDS, self.seconds), ("pages", ["page"], ALONE)):
                options = {"rate": rate, "kinds": kinds, "seconds": bed.plan.seconds(length)}
                row = served.part(load, loop="open", seed=number, **options)
                yield {**row, "loop": loop, "rate": rate}

    def brief(self, row: Row) -> str:
        page = row["latency_us"].get("page", {}).get("99", 0.0) / 1e3
        return (
            f"{row['loop']} {row['requests_per_second']:,.0f}/s in {row['seconds']:.2f} s, "
            f"page p99 {page:.2f} ms, {row['wrong']} wrong"
        )

    def report(self, page: Page, record: Record) -> None:
        tasks = _tasks(record)
        page.plot(_plot(record))
        page.section("As fast as they can")
        page.figures("", _in(tasks, "closed"), *TOTALS)
        _kinds(page, tasks, "closed")
        page.section("At half that rate")
        _kinds(page, tasks, "open")
        page.section("Pages with and without the database")
        page.figures("", _in(tasks, "open"), *MIXED)
        page.section("CPU time of a request")
        for loop, title in LOOPS.items():
            page.text(f"Users {title}:")
            page.figures("", _in(tasks, loop), *COSTS)
        page.section("Where the time goes")
        page.figures("", _in(tasks, "closed"), *TIMES_OF)


@dataclass(frozen=True)
class Served:
    server: Running
    gateway: Running | None
    database: Database
    admin: str

    @contextmanager
    def users(self, bed: MixedBed, seed: int) -> Iterator[Generator]:
        with tempfile.NamedTemporaryFile("w", prefix="bench-mixed-") as token:
            print(TOKEN, file=token, flush=True)
            options = {"users": bed.facts["users"], "page": PAGE, "token": token.name, "seed": seed}
            place, to = Place(list(bed.cpus)), (self.gateway or self.server).address
            with Generator(bed.programs.generator, place, "users", to, **options) as load:
                yield load

    def part(self, load: Generator, **part: object) -> Row:
        clocks: dict[str, Callable[[], float]] = {
            "server": self.server.cpu_seconds,
            "database": self.database.cpu_seconds,
            **({"gateway": self.gateway.cpu_seconds} if self.gateway else {}),
        }
        # The writer is a thread of the server.
        more = {**clocks, "writer": lambda: self.server.thread_seconds((WRITER,))}
        watch = cpu.Watch(lambda: sum(clock() for clock in clocks.values()))
        shown, before = metrics(self.admin), {name: clock() for name, clock in more.items()}
        result = load.measure(json.dumps(part))
        used = {name: clock() - before[name] for name, clock in more.items()}
        used["generator"] = result["generator_cpu_seconds"]
        seen = watch.seen(used["generator"])
        busy = seen.pop("cpu_seconds") + used["generator"]
        return {
            "loop": part["loop"],
            **result,
            **seen,
            "cpu_us": {name: 1e6 * us / result["requests"] for name, us in used.items() if us},
            "busy_cores": busy / result["seconds"],
            "server": _between(shown, metrics(self.admin)),
        }


@contextmanager
def _serving(bed: MixedBed, task: Task) -> Iterator[Served]:
    cpus, database, mode = list(bed.cpus), bed.databases[task["database"]], MODES[task["mode"]]
    # Otherwise, the modes would also differ in database concurrency.
    connections = CONNECTIONS * (len(cpus) if mode["lanes"] == 1 else 1)
    with (
        tempfile.TemporaryDirectory(prefix="bench-mixed-", dir=ELSEWHERE) as name,
        ExitStack() as parts,
    ):
        flags = (*mode["flags"], "--database.connections", str(connections))
        server = replica(database, Path(name), flags, lanes=mode["lanes"], pin="auto")
        process = parts.enter_context(running(server, bed.programs, cpus))
        gateway = None
        if task["path"] == "gateway":
            pool = [Endpoint(process.port, server.admin_port)]
            rendered = proxies.envoy(GATEWAY, proxies.configuration(bed.programs.tools, pool))
            gateway = parts.enter_context(running(rendered, bed.programs, cpus))
        yield Served(process, gateway, database, server.admin)


def _between(before: str, after: str) -> dict[str, float]:
    """Mean of each histogram in ms, between two reads of all metrics."""
    found = {}
    for name, (metric, *labels) in HISTOGRAMS.items():
        count, seconds = (
            total(after, f"{metric}_{part}", labels) - total(before, f"{metric}_{part}", labels)
            for part in ("count", "sum")
        )
        if count:
            found[name] = 1e3 * seconds / count
    return found


def _sync_ms() -> float:
    """Median time of a write and fdatasync(2) of one document's size: the minimum time of a
    save."""
    times = []
    with tempfile.TemporaryFile(dir=ELSEWHERE, buffering=0) as file:
        for _ in range(SYNCS):
            begun = time.monotonic()
            os.write(file.fileno(), b"x" * BYTES)
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - begun)
    return 1e3 * sorted(times)[SYNCS // 2]


TITLES = {
    "one-lane": "one lane with many slots",
    "one-slot": "many lanes with one slot each",
    "many-many": "many lanes with many slots",
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "direct": "direct",
    "gateway": "through the gateway",
}

LOOPS = {"closed": "as fast as they can", "open": "at half that rate"}

QUANTILES = {"p50": "50", "p90": "90", "p99": "99", "max": "100", "sd": "sd"}

TOTALS = (
    Figure("total, s", "seconds"),
    Figure("× many lanes with many slots", "seconds", over={"mode": "many-many"}),
    Figure("requests/s", "requests_per_second", 0),
    *(Figure(f"{title}, ms", f"latency_us.all.{key}", 1, 1e-3) for title, key in QUANTILES.items()),
    Figure("connect p99, ms", "connect_us.99", 2, 1e-3),
    Figure("first reply p99, ms", "first_reply_us.99", 1, 1e-3),
)

MIXED = (
    Figure("requests/s", "rate", 0),
    *(Figure(f"p{key} mixed, ms", f"latency_us.page.{key}", 2, 1e-3) for key in (50, 99)),
    *(
        Figure(f"p{key} alone, ms", f"latency_us.page.{key}", 2, 1e-3, where={"loop": "pages"})
        for key in (50, 99)
    ),
    Figure("p99, ratio", "latency_us.page.99", over={"loop": "pages"}),
)

COSTS = (
    Figure("server, µs", "cpu_us.server", 1),
    Figure("its writer of SQLite, µs", "cpu_us.writer", 1),
    Figure("PostgreSQL, µs", "cpu_us.database", 1),
    Figure("gateway, µs", "cpu_us.gateway", 1),
    Figure("users, µs", "cpu_us.generator", 1),
    Figure("cores", "busy_cores"),
)

TIMES_OF = tuple(Figure(f"{name}, ms", f"server.{name}", brief=True) for name in HISTOGRAMS)

CURVE = ("50", "90", "99", "99.9", "99.99")
"""Percentiles in the chart. Its axis has equal steps for 90%, 99% and 99.9%."""


def _tasks(record: Record) -> dict[str, Task]:
    labels = ("database", "path", "mode")
    found = (dict(zip(labels, each, strict=True)) for each in product(*map(record.labels, labels)))
    return {
        ", ".join(TITLES[value] for value in task.values()): task
        for task in found
        if record.select(**task)
    }


def _in(tasks: dict[str, Task], loop: str) -> Lines:
    return {name: {**task, "loop": loop} for name, task in tasks.items()}


def _kinds(page: Page, tasks: dict[str, Task], loop: str) -> None:
    for kind in KINDS:
        page.text(f"Of a {kind}:")
        quantiles = QUANTILES.items()
        columns = (
            Figure(f"{title}, ms", f"latency_us.{kind}.{key}", 2, 1e-3) for title, key in quantiles
        )
        page.figures("", _in(tasks, loop), *columns)


def _plot(record: Record) -> Plot:
    places = product(record.labels("database"), record.labels("path"), LOOPS)
    panels = [
        Panel(
            [
                Series(
                    TITLES[mode], _curve(record, database=database, path=path, loop=loop, mode=mode)
                )
                for mode in record.labels("mode")
            ],
            title=f"{TITLES[database]}, {TITLES[path]}, {LOOPS[loop]}",
            x="one in this many requests is slower",
            y="latency, ms",
            kind="lines",
            log="xy",
        )
        for database, path, loop in places
    ]
    return Plot("Percentiles of the latency of all requests", panels, columns=2)


def _curve(record: Record, **labels: str) -> list[tuple[float, list[float]]]:
    return [
        (
            round(1 / (1 - float(each) / 100)),
            [row["latency_us"]["all"][each] / 1e3 for row in record.select(**labels)],
        )
        for each in CURVE
    ]
