"""What happens to the replicas under which load, and what the figures decide: whether a policy meets the target."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from loadtests.bench.experiment.page import spread, verdict
from loadtests.bench.experiment.record import Record

SERVICE_MS = 10.0
"""Mean time that a request holds a replica's lane."""

SLOWEST = 10.0
"""The objective: the p99 of each kind of request, in its own service time."""

SLO_MS = SLOWEST * SERVICE_MS
"""The same where there is one kind. Of mixed requests the former objective: for the fast ones alone."""

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


DEFAULT = "least-request"
KEEPING = "least-request, no ejection"

DIRECT = "direct"
"""No gateway: what the lanes of one replica carry."""

HELD = "least-request, held lanes"
DIRECT_HELD = "direct, held lanes"

POLICIES: dict[str, dict] = {
    DEFAULT: {"balancing": {"policy": "least-request"}},
    "least-request-p2c": {"balancing": {"policy": "least-request-p2c"}},
    "round-robin": {"balancing": {"policy": "round-robin"}},
    "load-aware": {"balancing": {"policy": "load-aware"}},
    KEEPING: {
        "balancing": {"policy": "least-request"},
        "outliers": {"failurePercent": 0},
    },
    HELD: {"balancing": {"policy": "least-request"}},
}
"""Below `upstream`, by the name in the tables."""

WITHOUT_SLOW_LANES = (HELD, DIRECT_HELD)
"""Their replicas have no slow lanes."""

ONLY = {KEEPING: ("failing",), HELD: ("mixed",), DIRECT_HELD: ("mixed",)}
"""What is measured in some scenarios alone."""

LARGE = 30
"""Pairs of a gateway and a replica from which on a small machine has room for few policies."""

STEADY = ("homogeneous", "half", "mixed")
"""The scenarios of large shapes."""


def is_large(replicas: int, gateways: int) -> bool:
    """Whether a small machine has room for few policies only."""
    return replicas * gateways >= LARGE


def policies(replicas: int, gateways: int) -> dict[str, dict]:
    """Those that a shape is measured with."""
    if not gateways:
        return {DIRECT: {}, DIRECT_HELD: {}}
    if not is_large(replicas, gateways):
        return POLICIES
    return {name: POLICIES[name] for name in (DEFAULT, HELD)}


def fits(scenario: str, replicas: int, gateways: int) -> bool:
    """Whether a shape is measured with a scenario."""
    if not gateways:
        return scenario == "mixed"
    return not is_large(replicas, gateways) or scenario in STEADY


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


def capacity(p99: dict[float, float], limit: float = SLOWEST) -> float:
    """The highest load of a ladder whose p99, in service times, is within the limit.

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


TARGET = 10.0
"""The p99 of round robin in that of the default, with one of three or four replicas slowed."""

SLOWED = ("half", "antagonist")

MORE, LESS, CPU = 1.10, 0.97, 1.03
"""Factors for a policy to replace the default: the minimum load with a slowed replica behind three
gateways, the minimum load elsewhere, and the maximum CPU time of the gateways."""


def ladders(record: Record) -> list[str]:
    """The scenarios in which load climbs."""
    return [name for name in record.labels("scenario") if SCENARIOS[name].ladder]


def capacities(
    record: Record,
    scenario: str,
    shape: str,
    policy: str,
    figure: str = "slowdown",
    limit: float = SLOWEST,
) -> list[float]:
    """The capacity in each round."""
    rounds: dict[int, dict[float, float]] = {}
    for row in record.select(scenario=scenario, shape=shape, policy=policy):
        rounds.setdefault(row["round"], {})[row["load"]] = row[figure]
    return [capacity(loads, limit) for loads in rounds.values()]


def former(record: Record, scenario: str, shape: str, policy: str) -> list[float]:
    """The capacity of mixed requests by the former objective, in each round."""
    return capacities(record, scenario, shape, policy, "p99_fast", SLO_MS)


def reference(scenario: str) -> float:
    """The load at which all policies are measured."""
    return SCENARIOS[scenario].load or REFERENCE


def ratios(record: Record, figure: str, policy: str, scenario: str, shape: str) -> list[float]:
    """A figure of a policy in the default's, at that load."""
    where = {"scenario": scenario, "shape": shape, "load": reference(scenario)}
    return record.ratios(figure, {"policy": policy}, {"policy": DEFAULT}, **where)


def target(record: Record) -> Iterator[str]:
    """The default compared with round robin, with one of three or four replicas slowed."""
    shapes = [shape for shape in record.labels("shape") if shape[0] in "34"]
    for name in SLOWED:
        found = [r for shape in shapes for r in ratios(record, "p99", "round-robin", name, shape)]
        if found:
            yield (
                f"{SCENARIOS[name].title}, of three or four, {REFERENCE}% load: the p99 of round-robin is "
                f"{spread(found, 1)} times that of {DEFAULT}, which {verdict(found, TARGET, least=True)}."
            )


def adoption(record: Record) -> Iterator[str]:
    """Each other policy compared with the default."""
    for policy in record.labels("policy"):
        if policy == DEFAULT or policy in ONLY:
            continue
        where, elsewhere = _carried(record, policy)
        cpu = [
            ratio
            for shape in record.labels("shape")
            for ratio in ratios(record, "gateway_us", policy, "homogeneous", shape)
        ]
        if not (where and elsewhere and cpu):
            continue
        wins = median(where) >= MORE and min(elsewhere.values()) >= LESS and median(cpu) <= CPU
        others = ", ".join(f"{ratio:.2f} {name}" for name, ratio in elsewhere.items())
        yield (
            f"{policy} carries {spread(where, 2)} of what {DEFAULT} does with a slowed replica "
            f"behind three gateways; elsewhere {others}; it takes {spread(cpu, 2)} of its CPU. By "
            f"the rule (at least {MORE:.2f}, {LESS:.2f}, at most {CPU:.2f}) it "
            f"{'replaces' if wins else 'does not replace'} the default."
        )


def _carried(record: Record, policy: str) -> tuple[list[float], dict[str, float]]:
    """The capacity in that of the default: with a slowed replica behind three gateways, each; and
    elsewhere, the median by scenario and gateways."""
    where: list[float] = []
    elsewhere: dict[str, list[float]] = {}
    for name in ladders(record):
        for shape in record.labels("shape"):
            mine, theirs = (capacities(record, name, shape, p) for p in (DEFAULT, policy))
            if not (mine and theirs):
                continue
            # Less than the first step counts as that step, for both.
            least = SCENARIOS[name].ladder[0]
            ratio = max(least, median(theirs)) / max(least, median(mine))
            gateways = shape.partition("x")[2]
            if name in SLOWED and gateways == "3":
                where.append(ratio)
            else:
                elsewhere.setdefault(f"{name} behind {gateways}", []).append(ratio)
    return where, {name: median(found) for name, found in elsewhere.items()}
