"""What the figures decide: the target of the default, and whether another policy replaces it."""

from collections.abc import Iterator
from statistics import median

from loadtests.bench.balancing.climb import objective
from loadtests.bench.balancing.figures import capacity
from loadtests.bench.balancing.policies import DEFAULT, ONLY
from loadtests.bench.balancing.scenarios import REFERENCE, SCENARIOS
from loadtests.bench.text import spread

TARGET = 10.0
"""The p99 of round robin in that of the default, with one of three or four replicas slowed."""

SLOWED = ("half", "antagonist")

MORE, LESS, CPU = 1.10, 0.97, 1.03
"""A policy replaces the default if it carries so much more with a slowed replica behind three
gateways, nowhere else less than so much, and takes at most so much of the gateways' CPU."""


def cells(record: dict, scenario: str, shape: str, policy: str, seed: int) -> list[dict]:
    """The loads that a policy was measured with."""
    wanted = (scenario, shape, policy, seed)
    return [
        cell
        for cell in record["cells"]
        if (cell["scenario"], cell["shape"], cell["policy"], cell["seed"]) == wanted
    ]


def at(record: dict, scenario: str, shape: str, policy: str, seed: int) -> dict | None:
    """The cell at which all policies are measured."""
    load = SCENARIOS[scenario].load or REFERENCE
    found = [c for c in cells(record, scenario, shape, policy, seed) if c["load"] == load]
    return found[0] if found else None


def capacities(record: dict, scenario: str, shape: str, policy: str) -> list[float]:
    """The capacity in each seed."""
    of_seeds = (cells(record, scenario, shape, policy, seed) for seed in record["seeds"])
    return [capacity({c["load"]: objective(c) for c in found}) for found in of_seeds if found]


def target(record: dict) -> Iterator[str]:
    """The default beside round robin, with one of three or four replicas slowed."""
    shapes = [shape for shape in record["shapes"] if shape[0] in "34"]
    for name in SLOWED:
        pairs = [
            [at(record, name, shape, policy, seed) for policy in (DEFAULT, "round-robin")]
            for shape in shapes
            for seed in record["seeds"]
        ]
        ratios = [theirs["p99"] / mine["p99"] for mine, theirs in pairs if mine and theirs]
        if ratios:
            verdict = "meets" if median(ratios) >= TARGET else "misses"
            yield (
                f"{SCENARIOS[name].title}, of three or four, {REFERENCE}% load: the p99 of "
                f"round-robin is {spread(ratios, 1)} times that of {DEFAULT}, which {verdict} the "
                f"target of {TARGET:g}."
            )


def adoption(record: dict) -> Iterator[str]:
    """Each other policy beside the default."""
    for policy in record["policies"]:
        if policy == DEFAULT or policy in ONLY:
            continue
        where, elsewhere = _ratios(record, policy)
        cpu = _cpu(record, policy)
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


def _ratios(record: dict, policy: str) -> tuple[list[float], dict[str, float]]:
    """The capacity in that of the default: with a slowed replica behind three gateways, each; and
    elsewhere, the median by scenario and gateways."""
    where: list[float] = []
    elsewhere: dict[str, list[float]] = {}
    for name in (n for n in record["scenarios"] if SCENARIOS[n].ladder):
        for shape in record["shapes"]:
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
    return where, {name: median(ratios) for name, ratios in elsewhere.items()}


def _cpu(record: dict, policy: str) -> list[float]:
    """The gateways' CPU per request in that of the default, where nothing is in trouble."""
    pairs = [
        [at(record, "homogeneous", shape, p, seed) for p in (DEFAULT, policy)]
        for shape in record["shapes"]
        for seed in record["seeds"]
    ]
    return [theirs["gateway_us"] / mine["gateway_us"] for mine, theirs in pairs if mine and theirs]
