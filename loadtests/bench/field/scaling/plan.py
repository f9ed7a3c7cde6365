"""Which sizes are measured, for how long, and how the time is shared out."""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadtests.bench.field.bench import Plan
from loadtests.bench.field.contender import HELLO, Contender

OPS = 200_000
"""Iterations of `/work` where CPUs are counted: some 0.3 ms, so that the load generator, which shares them,
takes next to nothing."""


@dataclass(frozen=True)
class Sizes:
    """Of one run."""

    seconds: float
    """Length of a measured cell."""
    warm_up: float
    rounds: int
    budget: dict[str, float]
    """Seconds of each part: no round is begun that would not end in time, the first excepted."""
    connections: tuple[int, ...]
    routes: tuple[int, ...]
    pods: tuple[int, ...]
    updates: tuple[int, ...]
    """Of these also what they cost a gateway without requests; and other proxies have no more sizes."""
    gateways: int
    contenders: tuple[str, ...]
    """Those that run where each design has one: all others are like one of them."""


FULL = Sizes(
    seconds=0.5,
    warm_up=0.25,
    rounds=3,
    budget={"cores": 120.0, "connections": 75.0, "routes": 30.0, "pods": 75.0},
    connections=(1, 8, 64, 512, 4096, 10_000),
    routes=(10, 100, 1000, 10_000),
    pods=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    updates=(1, 4, 16, 64, 256),
    gateways=4,
    contenders=(
        *("floor", "corelane-server", "axum", "go-net-http", "node-http"),
        *("nginx", "apache", "spring-tomcat", "cpp-pool"),
    ),
)

QUICK = Sizes(
    seconds=0.2,
    warm_up=0.1,
    rounds=1,
    budget={"cores": 10.0, "connections": 8.0, "routes": 6.0, "pods": 10.0},
    connections=(1, 64, 1024),
    routes=(10, 100, 1000),
    pods=(1, 16, 256),
    updates=(16, 256),
    gateways=1,
    contenders=("floor", "corelane-server", "axum", "nginx"),
)


def sizes(plan: Plan) -> Sizes:
    """Those of a run."""
    return QUICK if plan.quick else FULL


def chosen(found: Sequence[Contender], sizes: Sizes) -> list[Contender]:
    """The contenders that stand for a design."""
    return [contender for contender in found if contender.name in sizes.contenders]


def threaded(found: Sequence[Contender], sizes: Sizes) -> list[Contender]:
    """Those whose threads may be more than one; in a quick run those that stand for a design."""
    able = [one for one in found if one.threads and HELLO in one.workloads]
    return able if sizes is FULL else chosen(able, sizes)


def rounds(sizes: Sizes, part: str) -> Iterator[tuple[int, random.Random]]:
    """The number of each round that its part has time for, and what its order is drawn with."""
    begun, longest = time.monotonic(), 0.0
    for number in range(1, sizes.rounds + 1):
        before = time.monotonic()
        if number > 1 and before - begun + longest > sizes.budget[part]:
            return
        yield number, random.Random(number)
        longest = max(longest, time.monotonic() - before)
