"""From answers to figures."""

import math
from collections.abc import Sequence
from itertools import pairwise

from loadtests.bench.balancing.scenarios import SLO_MS

WINDOW_MS = 500.0
LOST_MS = 10_000.0
"""What a request without an answer counts as: the generator's patience."""

Answer = tuple[float, float, bool, bool]
"""When it was due and how long it took, in ms; whether it was a slow one; whether it was right."""


def answers(report: dict) -> list[Answer]:
    """The answers of a turn."""
    columns = report["samples"]
    found = list(
        zip(
            columns["due_ms"],
            columns["latency_ms"],
            map(bool, columns["work"]),
            map(bool, columns["right"]),
            strict=True,
        )
    )
    lost = report["faults"].get("silence", 0)
    return found + [(math.inf, LOST_MS, False, False)] * lost


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that so many are not above (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def capacity(p99: dict[float, float], limit: float = SLO_MS) -> float:
    """The highest load of a ladder whose p99 is within the limit.

    log(p99) is interpolated linearly between the last load within it and the first beyond.
    Below the ladder it is 0; the top of the ladder means that or more.
    """
    steps = sorted(p99)
    if p99[steps[0]] > limit:
        return 0.0
    for low, high in pairwise(steps):
        if p99[high] > limit:
            part = math.log(limit / p99[low]) / math.log(p99[high] / p99[low])
            return low + part * (high - low)
    return float(steps[-1])


def recovery(found: list[Answer], over: float, until: float) -> float | None:
    """Seconds from `over` until the p99 of three windows in a row is within the objective; None
    where it never was."""
    good = 0
    begin = over * 1000
    while begin + WINDOW_MS <= until * 1000:
        window = [
            took if right else LOST_MS
            for due, took, _, right in found
            if begin <= due < begin + WINDOW_MS
        ]
        good = good + 1 if window and percentile(window, 0.99) <= SLO_MS else 0
        if good == 3:
            return (begin - 2 * WINDOW_MS) / 1000 - over
        begin += WINDOW_MS
    return None
