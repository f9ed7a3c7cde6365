"""Connections that never rest: what parking and moving cost those who do not need them.

What is to be told apart is small beside what the machine does meanwhile, and a process keeps for its life where its start
happened to put its memory. So each round starts all servers anew, and measures many short slices of them in turns.
"""

import math
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Self

from loadtests.bench import cpu
from loadtests.bench.experiment.generator import Generator
from loadtests.bench.field.contender import DIV, HELLO
from loadtests.bench.field.workloads import REQUESTS
from loadtests.bench.moving import judging
from loadtests.bench.moving.bench import Bench, Sample
from loadtests.bench.moving.replica import (
    ACTIVE,
    MOVES,
    OFF,
    PARKED_ONLY,
    RETURNS,
    Arm,
    Replica,
    Server,
    serving,
    total,
)

CONNECTIONS = 64
DEFAULT_PARK = "5s"
WARM_UP = 0.1
"""Seconds before the first slice of a server."""

BASE = Arm(judging.BASE)
AGAIN = Arm("off again")
PARKING = Arm("park_after 5 s", OFF, DEFAULT_PARK)
BY_HYPER = Arm("all by hyper", plain=False)


@dataclass(frozen=True)
class Load:
    """What connections ask, and which servers are asked."""

    name: str
    arms: Sequence[Arm]
    target: str = HELLO
    bodies: int | None = None
    """One in so many requests of a connection has a body."""

    def options(self, folder: Path) -> dict[str, object]:
        """Of the load generator."""
        body = {"bodies": self.bodies} if self.bodies else {}
        return {**REQUESTS[self.target].options(folder), **body}


@dataclass(frozen=True)
class Setting:
    """Servers with so many lanes, all of which share one CPU; the generator has the other."""

    lanes: int
    loads: Sequence[Load]

    @property
    def arms(self) -> list[Arm]:
        """Those of all loads."""
        return list(dict.fromkeys(arm for load in self.loads for arm in load.arms))


PLAIN = (BASE, AGAIN, PARKING)
MIXED = (*PLAIN, BY_HYPER)

SETTINGS = {
    "one lane": Setting(
        1,
        (
            Load(HELLO, PLAIN),
            Load(DIV, PLAIN, DIV),
            Load("1 in 10 with a body", MIXED, bodies=10),
            Load("each with a body", MIXED, bodies=1),
        ),
    ),
    "two lanes": Setting(
        2,
        (
            Load(
                HELLO,
                (
                    BASE,
                    AGAIN,
                    Arm("parked-only", PARKED_ONLY, DEFAULT_PARK),
                    Arm("active", ACTIVE, DEFAULT_PARK),
                ),
            ),
        ),
    ),
}

NAMES = [
    f"{name}, {load.name}: {arm.name}"
    for name, setting in SETTINGS.items()
    for load in setting.loads
    for arm in load.arms
]


def measured(bench: Bench) -> Iterator[tuple[str, int, Sample]]:
    """Setting, load and arm; round; and what was seen. A setting that is decided has no more rounds."""
    for name, setting in SETTINGS.items():
        draw, results = random.Random(name), defaultdict(list)
        for number in range(1, bench.size.looks[-1] + 1):
            for load, arm, sample in _round(bench, setting, draw):
                one = f"{name}, {load.name}: {arm.name}"
                results[one].append(sample)
                yield one, number, sample
            if number in bench.size.looks and judging.decided(results):
                break


def _round(
    bench: Bench, setting: Setting, draw: random.Random
) -> Iterator[tuple[Load, Arm, Sample]]:
    """All servers start; who is first is drawn by lot, of servers and of loads."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        servers = {}
        for arm in draw.sample(setting.arms, len(setting.arms)):
            # Lanes that share a CPU cannot be pinned, one each.
            replica = Replica(arm, setting.lanes, pin=setting.lanes == 1)
            servers[arm] = stack.enter_context(serving(replica, bench.programs, [bench.cpus[0]]))
        for load in draw.sample(setting.loads, len(setting.loads)):
            options = load.options(folder)
            if setting.lanes > 1:
                options["seats"] = ",".join(map(str, range(setting.lanes)))
            order = draw.sample(load.arms, len(load.arms))
            for arm, sample in _turns(bench, servers, order, options).items():
                yield load, arm, sample


def _turns(
    bench: Bench, servers: dict[Arm, Server], order: Sequence[Arm], options: dict[str, object]
) -> dict[Arm, Sample]:
    """Short slices of all servers in turns: what drifts evenly meets all alike (ABBA BAAB, with more letters)."""
    seconds = bench.size.slice_seconds
    options |= {"connections": CONNECTIONS, "seconds": seconds, "warm_up": WARM_UP, "spin": True}
    forth, back = list(order), list(reversed(order))
    slices: dict[Arm, list[Sample]] = {arm: [] for arm in order}
    with ExitStack() as stack:
        loads = {
            arm: stack.enter_context(bench.beside("closed", servers[arm].address, **options))
            for arm in order
        }
        before = {arm: servers[arm].series() for arm in order}
        with _Beside() as beside:
            for arm in (*forth, *back, *back, *forth) * bench.size.turns:
                slices[arm].append(_slice(servers[arm], loads[arm]))
        after = {arm: servers[arm].series() for arm in order}
    every = [one for found in slices.values() for one in found]
    shares = beside.shares(sum(one["used"] + one["generator_used"] for one in every))
    moved = {
        arm: {
            name: round(total(after[arm], family) - total(before[arm], family))
            for name, family in (("moves", MOVES), ("returns", RETURNS))
        }
        for arm in order
    }
    return {arm: {**_mean(found), **moved[arm], **shares} for arm, found in slices.items()}


def _slice(server: Server, load: Generator) -> Sample:
    before = server.process.cpu_seconds()
    result = load.measure()
    used = server.process.cpu_seconds() - before
    return {
        "requests": result["requests"],
        "wrong": result["wrong"],
        "cpu_us": used / result["requests"] * 1e6,
        "requests_per_second": result["requests_per_second"],
        "used": used,
        "generator_used": result["generator_cpu_seconds"],
    }


def _mean(slices: Sequence[Sample]) -> Sample:
    """The slices of one server in one round. Of geometric means the ratio of two is exactly the inverse of that
    of the two exchanged (as in loadtests/compare/measures.py)."""

    def mean(figure: str) -> float:
        return math.exp(fmean(math.log(one[figure]) for one in slices))

    return {
        "requests": sum(one["requests"] for one in slices),
        "wrong": sum(one["wrong"] for one in slices),
        "cpu_us": mean("cpu_us"),
        "requests_per_second": mean("requests_per_second"),
        "slices": [round(one["cpu_us"], 3) for one in slices],
    }


class _Beside:
    """What the rest of the machine did meanwhile."""

    def __enter__(self) -> Self:
        self._machine, self._begun, self._own = _now()
        return self

    def __exit__(self, *_: object) -> None:
        machine, ended, own = _now()
        self._seconds = ended - self._begun
        self._busy = machine.busy - self._machine.busy - (own - self._own)
        self._stolen = machine.stolen - self._machine.stolen

    def shares(self, known: float) -> dict[str, float]:
        """In cores, without the CPU time that is known of."""
        others = max(0.0, self._busy - known)
        return {
            "others_cores": others / self._seconds,
            "stolen_cores": self._stolen / self._seconds,
        }


def _now() -> tuple[cpu.Machine, float, float]:
    return cpu.Machine.now(), time.monotonic(), time.process_time()
