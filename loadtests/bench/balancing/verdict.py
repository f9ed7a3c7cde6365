"""What the figures decide: the target of the default, and whether another policy replaces it."""

from collections.abc import Iterator
from statistics import median

from loadtests.bench.balancing.climb import objective
from loadtests.bench.balancing.figures import capacity
from loadtests.bench.balancing.scenarios import DEFAULT, ONLY, REFERENCE, SCENARIOS
from loadtests.bench.experiment.page import verdict
from loadtests.bench.experiment.record import Record
from loadtests.bench.text import spread

TARGET = 10.0
"""The p99 of round robin in that of the default, with one of three or four replicas slowed."""

SLOWED = ("half", "antagonist")

MORE, LESS, CPU = 1.10, 0.97, 1.03
"""Factors for a policy to replace the default: the minimum load with a slowed replica behind three
gateways, the minimum load elsewhere, and the maximum CPU time of the gateways."""


def ladders(record: Record) -> list[str]:
    """The scenarios in which load climbs."""
    return [name for name in record.labels("scenario") if SCENARIOS[name].ladder]


def capacities(record: Record, scenario: str, shape: str, policy: str) -> list[float]:
    """The capacity in each round."""
    rounds: dict[int, dict[float, float]] = {}
    for row in record.select(scenario=scenario, shape=shape, policy=policy):
        rounds.setdefault(row["round"], {})[row["load"]] = objective(row)
    return [capacity(loads) for loads in rounds.values()]


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
