"""What happens to the replicas under which load, and what is read from their answers."""

import math
from dataclasses import dataclass
from itertools import pairwise

from loadtests.bench.experiment.record import nearest

SERVICE_MS = 10.0
"""Mean time that a request holds a replica's lane."""

SLOWEST = 10.0
"""The objective: the p99 of each kind of request, in its own service time."""

SLO_MS = SLOWEST * SERVICE_MS
"""The same where there is one kind."""

SLOW = 20
"""How much longer a slow request takes than a fast one, where there are both."""

SLOW_SHARE = 0.05

REFERENCE = 70
"""The load at which every policy is measured, whether or not it can carry it."""

WARM_UP = 1.0

CLIMB = (50, 60, 70, 80, 90)

LAG_MS = 5.0
"""The generator's own p99 lag from which on the machine was disturbed, whatever the policy."""

TRIES = 3
"""Of a step of a ladder, until nothing disturbed it; the last one counts."""


@dataclass(frozen=True)
class Event:
    """At a time in seconds, a command for one replica: a line, or `stop` and `start`."""

    at: float
    line: str


@dataclass(frozen=True)
class Scenario:
    """One kind of load or trouble; it is the last replica that has the trouble."""

    name: str
    title: str
    seconds: float = 7.0
    """Measured, after the warm-up."""
    speed: float = 1.0
    mixed: bool = False
    events: tuple[Event, ...] = ()
    over: float = 0.0
    """From when recovery counts: the end of the trouble, or its begin where the policy must end it."""
    ladder: tuple[float, ...] = ()
    """Offered loads, in percent of what the replicas could do together at full speed."""
    load: float | None = None
    """The load where there is no ladder."""
    seeds: int = 2
    """How many are measured at the most; three where it decides."""
    of_others: bool = False
    """Whether `load` counts without the last replica."""

    @property
    def service_ms(self) -> tuple[float, float]:
        """How long `/hello` and `/work` take; their mean is SERVICE_MS."""
        if not self.mixed:
            return SERVICE_MS, SERVICE_MS
        fast = SERVICE_MS / (1 - SLOW_SHARE + SLOW_SHARE * SLOW)
        return fast, fast * SLOW

    def slowdown(self, fast: float, slow: float) -> float:
        """The worst p99 of a kind, in its own service time."""
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
    """Requests per second of a load in percent of so many lanes."""
    counted = lanes - 1 if scenario.of_others else lanes
    return load / 100 * counted * 1000 / SERVICE_MS


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


def capacity(p99: dict[float, float]) -> float:
    """The highest load of a ladder whose p99, in service times, is within the objective.

    log(p99) is interpolated linearly between the last load within it and the first beyond.
    Below the ladder it is 0; the top of the ladder means that or more.
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
        good = good + 1 if window and nearest(window, 99) <= SLO_MS else 0
        if good == 3:
            return (begin - 2 * WINDOW_MS) / 1000 - over
        begin += WINDOW_MS
    return None
