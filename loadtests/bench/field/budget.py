"""How long a run will take: told before it begins."""

from collections.abc import Sequence

from loadtests.bench.field import parts
from loadtests.bench.field.bench import Plan
from loadtests.bench.field.contender import MIXED, PROJECTS, Contender
from loadtests.bench.field.measures import OPEN_WARM_UP
from loadtests.bench.field.workloads import REQUESTS

START = 0.3
START_WARM = 3.0
"""Of a program that warms up: a JVM on one CPU."""

CONNECT = 0.15
"""Of a load generator: its start, its connections, its end."""

HOLD = 1.5
"""To open 10,000 connections, and to close them."""

TURNS = 1.8
"""The loads and saves of the closed loop, and the projects before them."""


def of(plan: Plan, contenders: Sequence[Contender]) -> dict[str, float]:
    """Seconds of each part."""
    found = {
        part: plan.rounds * sum(_once(plan, part, contender) for contender in contenders)
        for part in parts.ROUNDS
        if part in plan.parts
    }
    for part in (*REQUESTS, PROJECTS):
        if part in found:
            # In the first round; then it is compiled.
            found[part] += plan.seconds.settling * sum(
                bool(one.compilers) and part in one.workloads for one in contenders
            )
    if set(found) - {parts.IDLE}:
        # Once for all workloads and rounds.
        share = plan.seconds.warm_up
        starts = sum(_start(one) + share * one.warm_up_first for one in contenders)
        found[parts.STARTS] = starts
    for part, measured in parts.APART.items():
        if part in plan.parts:
            found[part] = measured.seconds(plan, contenders)
    return found


def _once(plan: Plan, part: str, contender: Contender) -> float:
    """Of one contender in one round."""
    seconds = plan.seconds
    warm_up = seconds.warm_up * contender.warm_up
    if part == parts.IDLE:
        return _start(contender) + HOLD + seconds.idle
    if part not in contender.workloads:
        return 0.0
    if part == MIXED:
        return min(1.0, seconds.mixed / 4) + seconds.mixed + CONNECT
    if part == PROJECTS:
        return TURNS + warm_up + seconds.projects + CONNECT
    assert part in REQUESTS
    return warm_up + seconds.closed + OPEN_WARM_UP + seconds.open + 2 * CONNECT


def _start(contender: Contender) -> float:
    return START_WARM if contender.warm_up_first else START


def told(found: dict[str, float]) -> str:
    """One line of it."""
    each = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in found.items())
    return f"about {sum(found.values()) / 60:.1f} min: {each}"
