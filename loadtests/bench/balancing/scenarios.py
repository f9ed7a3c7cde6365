"""Scenarios: load, replica faults, and metrics computed from responses."""

import math
from dataclasses import dataclass
from itertools import pairwise

from loadtests.bench.experiment.record import nearest

SERVICE_MS = 10.0

SLOWEST = 10.0
"""Objective for the p99 of each kind of request, as a multiple of its service time."""

SLO_MS = SLOWEST * SERVICE_MS

SLOW = 20

SLOW_SHARE = 0.05

REFERENCE = 70
"""The load at which every policy is measured, whether it can sustain it or not."""

WARM_UP = 1.0

CLIMB = (50, 60, 70, 80, 90)

LAG_MS = 5.0
"""Maximum p99 lag of the generator in ms; above this lag, the machine is considered disturbed."""

TRIES = 3
"""Maximum attempts at a ladder step while something disturbs it. The last attempt counts."""


@dataclass(frozen=True)
class Event:
    """A time in seconds and the command that one replica gets then: `stop`, `start`, or a line
    such as `speed 0.4`."""

    at: float
    line: str


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    seconds: float = 7.0
    """Measured seconds after the warm-up."""
    speed: float = 1.0
    mixed: bool = False
    events: tuple[Event, ...] = ()
    over: float = 0.0
    """Start of the recovery time: the end of the fault, or its start if the policy itself must
    mitigate the fault.
    """
    ladder: tuple[float, ...] = ()
    load: float | None = None
    """Load of scenarios without a ladder."""
    seeds: int = 2
    of_others: bool = False

    @property
    def service_ms(self) -> tuple[float, float]:
        if not self.mixed:
            return SERVICE_MS, SERVICE_MS
        fast = SERVICE_MS / (1 - SLOW_SHARE + SLOW_SHARE * SLOW)
        return fast, fast * SLOW

    def slowdown(self, fast: float, slow: float) -> float:
        """Worst p99 of any kind of request, as a multiple of its service time."""
        alone, longer = self.service_ms
        return max(fast / alone, slow / longer if self.mixed else 0.0)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("homogeneous", "All replicas alike", ladder=(70, 80, 90, 95)),
        Scenario(
            "half", "One replica with half the capacity", speed=0.5, ladder=(40, *CLIMB), seeds=3
        ),
        Scenario(
            "antagonist",
            "One replica preempted to 0.4 half of the time",
            seconds=8.0,
            events=(Event(1.0, "speed 0.4"), Event(5.0, "speed 1")),
            over=5.0,
            ladder=(30, 40, *CLIMB),
            seeds=3,
        ),
        Scenario(
            "mixed",
            "5% of the requests 20 times as long",
            seconds=10.0,
            mixed=True,
            ladder=(30, 40, *CLIMB),
            seeds=3,
        ),
        Scenario(
            "joining",
            "A replica joins an overloaded fleet",
            seconds=9.0,
            events=(Event(3.0, "start"),),
            over=3.0,
            load=110,
            of_others=True,
        ),
        Scenario(
            "failing",
            "A replica fails fast for 5 s",
            seconds=11.0,
            events=(Event(3.0, "fail 1"), Event(8.0, "fail 0")),
            over=3.0,
            load=60,
        ),
    )
}


def rate(scenario: Scenario, load: float, lanes: int) -> float:
    """Requests per second at a load in percent of this many lanes."""
    counted = lanes - 1 if scenario.of_others else lanes
    return load / 100 * counted * 1000 / SERVICE_MS


WINDOW_MS = 500.0
LOST_MS = 10_000.0
"""Latency assigned to unanswered requests: the generator's timeout."""

Answer = tuple[float, float, bool, bool]
"""Due time and latency in ms, whether the request was slow, and whether the response was right."""


def answers(report: dict) -> list[Answer]:
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


def capacity(p99: dict[float, float]) -> float:
    """Highest load on a ladder at which the p99, in service times, meets the objective.

    Interpolates log(p99) linearly between the last passing load and the first failing one. Returns
    0 if every load fails, and the top of the ladder if every load passes.
    """
    steps = sorted(p99)
    if p99[steps[0]] > SLOWEST:
        return 0.0
    for low, high in pairwise(steps):
        if p99[high] > SLOWEST:
            part = math.log(SLOWEST / p99[low]) / math.log(p99[high] / p99[low])
            return low + part * (high - low)
    return float(steps[-1])


def recovery(found: list[Answer], over: float, until: float) -> float | None:
    """Seconds from `over` until the p99 of three consecutive windows meets the objective, or None."""
    good = 0
    begin = over * 1000
    while begin + WINDOW_MS <= until * 1000:
        window = [
            took if right else LOST_MS
            for due, took, _, right in found
            if begin <= due < begin + WINDOW_MS
        ]
        good = good + 1 if window and nearest(window, 99) <= SLO_MS else 0
        if good == 3:
            return (begin - 2 * WINDOW_MS) / 1000 - over
        begin += WINDOW_MS
    return None
