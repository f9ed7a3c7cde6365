"""Measures one cell in one round: as fast as the users can, at half that rate, and pages alone."""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.gateway.proxies import Programs
from loadtests.bench.mixed import phases
from loadtests.bench.mixed.cells import Cell
from loadtests.bench.mixed.databases import Databases
from loadtests.bench.mixed.stack import PAGE, TOKEN, Stack, stack
from postgres import home

KINDS = ("page", "load", "save")

RATE_SHARE = 0.5
"""The rate of the open loop, in what the same cell has just reached in the closed one."""


@dataclass(frozen=True)
class Size:
    """How much is asked."""

    users: int = 1000
    rounds: int = 10
    """Of a page, a load and a save, for each user."""
    seconds: float = 2.5
    """Length of the open loop."""
    alone: float = 1.0
    """Length of the open loop of pages only."""

    @property
    def requests(self) -> int:
        """Of the closed loop."""
        return self.users * self.rounds * len(KINDS)


FULL = Size()
QUICK = Size(users=60, rounds=3, seconds=0.5, alone=0.3)


@dataclass(frozen=True)
class Bench:
    """What every measurement uses."""

    programs: Programs
    databases: Databases
    cpus: list[int]
    size: Size


def measured(bench: Bench, cell: Cell, seed: int) -> dict:
    """The three parts, on a database that has one project for each user."""
    size = bench.size
    with tempfile.TemporaryDirectory(prefix="bench-mixed-", dir=home.ELSEWHERE) as name:
        folder = Path(name)
        token = folder / "token"
        token.write_text(TOKEN)
        options = {"users": size.users, "page": PAGE, "token": token, "seed": seed}
        database = bench.databases[cell.database]
        with (
            stack(cell, database, bench.programs, bench.cpus, folder) as served,
            Generator(
                bench.programs.generator, Place(bench.cpus), "users", served.address, **options
            ) as load,
        ):
            closed = _part(served, load, loop="closed", kinds=KINDS, rounds=size.rounds)
            rate = RATE_SHARE * closed["requests_per_second"]
            open_loop = {"loop": "open", "rate": rate, "seed": seed}
            load.go_first()
            mixed = _part(served, load, **open_loop, kinds=KINDS, seconds=size.seconds)
            pages = _part(served, load, **open_loop, kinds=["page"], seconds=size.alone)
    return {"closed": closed, "open": {**mixed, "rate": rate}, "pages": {**pages, "rate": rate}}


def _part(served: Stack, load: Generator, **part: object) -> dict:
    """One part, with the CPU time of everything that took part in it."""
    before = _Counters.of(served)
    result = load.measure(json.dumps(part))
    return {**result, **_Counters.of(served).since(before, result)}


@dataclass(frozen=True)
class _Counters:
    """What is counted beside the users."""

    at: float
    used: dict[str, dict[int, float]]
    machine: cpu.Machine
    metrics: str

    @classmethod
    def of(cls, served: Stack) -> "_Counters":
        return cls(time.monotonic(), served.cpu_seconds(), cpu.Machine.now(), served.metrics())

    def since(self, before: "_Counters", result: dict) -> dict:
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
            "cpu_us": {name: 1e6 * time / result["requests"] for name, time in used.items()},
            "busy_cores": ours / result["seconds"],
            "others_cores": max(0.0, others) / wall,
            "stolen_cores": (self.machine.stolen - before.machine.stolen) / wall,
            "phases": phases.between(before.metrics, self.metrics),
        }
