"""`mixed`: 1,000 users, each with a page, a load and a save of a project."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import product

from loadtests.bench import cpu
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Stand, Task
from loadtests.bench.experiment.record import Record
from loadtests.bench.mixed import report
from loadtests.bench.mixed.stack import (
    PAGE,
    TOKEN,
    Database,
    Sqlite,
    Stack,
    postgres,
    stack,
    sync_ms,
)

TOOLS = ("helm", "supervisord", "envoy")

DATABASES = ("sqlite", "postgres")
PATHS = ("direct", "gateway")

MODES = {
    "one-lane": ("--lanes", "1", "--limits.slots", "1024"),
    "one-slot": ("--lanes", "auto", "--limits.slots", "1"),
    "many-many": ("--lanes", "auto"),
}
"""The settings of each mode; one slot is one request at a time on a lane."""

CONNECTIONS = 4
"""To the database, of each lane: the default."""

USERS, TIMES = 1000, 10
"""Users, and how often each gets its page, loads and saves in the closed loop."""

QUICK_USERS, QUICK_TIMES = 60, 3

ALONE = 1.0
"""Length of the open loop of pages only."""

RATE_SHARE = 0.5
"""The rate of the open loops, in what the closed loop has just reached."""


@dataclass
class MixedStand(Stand):
    """Programs, and the databases that tasks use."""

    programs: Programs | None = None
    databases: dict[str, Database] = field(default_factory=dict)


class Mixed(Experiment):
    """Every task has three loops: as fast as the users can, at half that rate, and pages alone."""

    name = "mixed"
    title = "A page, a load and a save"
    help = "1,000 users with pages and projects, by database, path and mode"
    rounds = 3
    seconds = 2.5

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            {"database": database, "path": path, "mode": mode}
            for database, path, mode in product(DATABASES, PATHS, MODES)
        ]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[MixedStand]:
        programs = builds.obtain(plan.server, plan.profile, tools=TOOLS)
        versions = builds.describe()
        needed = any(task["database"] == "postgres" for task in tasks)
        users, times = (QUICK_USERS, QUICK_TIMES) if plan.quick else (USERS, TIMES)
        with postgres() if needed else nullcontext() as running:
            known: dict[str, Database] = {"sqlite": Sqlite()}
            if running:
                known["postgres"] = running
                versions["PostgreSQL"] = running.version()
            yield MixedStand(
                plan,
                tuple(sorted(os.sched_getaffinity(0))),
                facts={"users": users, "times": times, "sync_ms": sync_ms()},
                versions=versions,
                programs=programs,
                databases=known,
            )

    def measure(self, stand: MixedStand, task: Task, number: int) -> Iterator[Row]:
        cpus, seconds = list(stand.cpus), stand.plan.seconds
        users, times = stand.facts["users"], stand.facts["times"]
        settings = settings_of(task["mode"], len(cpus))
        database, gateway = stand.databases[task["database"]], task["path"] == "gateway"
        with tempfile.NamedTemporaryFile("w", prefix="bench-mixed-") as token:
            print(TOKEN, file=token, flush=True)
            options = {"users": users, "page": PAGE, "token": token.name, "seed": number}
            with (
                stack(settings, database, stand.programs, cpus, gateway=gateway) as served,
                Generator(
                    stand.programs.generator, Place(cpus), "users", served.address, **options
                ) as load,
            ):
                closed = _part(served, load, loop="closed", kinds=report.KINDS, rounds=times)
                yield closed
                rate = RATE_SHARE * closed["requests_per_second"]
                load.go_first()
                at_rate = {"loop": "open", "rate": rate, "seed": number}
                for loop, kinds, length in (
                    ("open", report.KINDS, self.seconds),
                    ("pages", ["page"], ALONE),
                ):
                    row = _part(served, load, **at_rate, kinds=kinds, seconds=seconds(length))
                    yield {**row, "loop": loop, "rate": rate}

    def brief(self, row: Row) -> str:
        page = row["latency_ms"].get("page", {}).get("99", 0.0)
        return (
            f"{row['loop']} {row['requests_per_second']:,.0f}/s in {row['seconds']:.2f} s, "
            f"page p99 {page:.2f} ms, {row['wrong']} wrong"
        )

    def page(self, record: Record) -> Page:
        return report.page(self.title, record)


def settings_of(mode: str, lanes: int) -> list[str]:
    """The settings of a mode on so many CPUs.

    One lane gets as many connections to the database as all lanes have together: otherwise modes would
    differ by what the database can do at a time.
    """
    connections = CONNECTIONS * (lanes if mode == "one-lane" else 1)
    return [*MODES[mode], "--database.connections", str(connections)]


def _part(served: Stack, load: Generator, **part: object) -> Row:
    """One loop, with the CPU time of everything that took part in it."""
    before = _Counters.of(served)
    result = load.measure(json.dumps(part))
    result["wrong"] = result.pop("errors")
    return {"loop": part["loop"], **result, **_Counters.of(served).since(before, result)}


@dataclass(frozen=True)
class _Counters:
    """What is counted in addition to the users' figures."""

    at: float
    used: dict[str, dict[int, float]]
    machine: cpu.Machine
    metrics: str

    @classmethod
    def of(cls, served: Stack) -> "_Counters":
        return cls(time.monotonic(), served.cpu_seconds(), cpu.Machine.now(), served.metrics())

    def since(self, before: "_Counters", result: Row) -> Row:
        """CPU time per request by part, in microseconds; what the rest of the machine did."""
        wall = self.at - before.at
        used = {
            name: sum(now - before.used[name].get(pid, 0.0) for pid, now in processes.items())
            for name, processes in self.used.items()
        }
        used["generator"] = result["generator_cpu_seconds"]
        # The writer is a thread of the server.
        ours = sum(used.values()) - used["writer"]
        others = self.machine.busy - before.machine.busy - ours
        return {
            # Without the parts that a task does not have.
            "cpu_us": {name: 1e6 * us / result["requests"] for name, us in used.items() if us},
            "busy_cores": ours / result["seconds"],
            "others_cores": max(0.0, others) / wall,
            "stolen_cores": (self.machine.stolen - before.machine.stolen) / wall,
            "server": report.between(before.metrics, self.metrics),
        }
