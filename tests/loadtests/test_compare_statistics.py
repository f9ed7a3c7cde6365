"""The statistics of `compare`: exact where they are said to be, and right as often as they are said to be."""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

import pytest

from loadtests.bench.compare import verdict
from loadtests.bench.compare.stand import (
    BUILDS,
    MARGINS,
    MEASURES,
    ORDERS,
    PATHS,
    Round,
    Sample,
    Slice,
    difference,
    differences,
)
from loadtests.bench.compare.verdict import (
    FASTER,
    NO_DIFFERENCE,
    NO_SLOWER,
    SLOWER,
    UNDECIDED,
    Look,
    SignedRank,
)

# The statistics belong to a benchmark, which only developers run.
pytestmark = pytest.mark.nightly

LOOKS = (10, 15, 20)

# Hamilton depression scale before and after a tranquilliser: Hollander and Wolfe, example 3.1.
BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]


def test_a_published_example_comes_out_as_published() -> None:
    found = SignedRank([one - other for one, other in zip(BEFORE, AFTER, strict=True)])
    assert found.p_above(0) == 10 / 512
    assert found.estimate == pytest.approx(0.46)
    assert found.interval(0.02) == pytest.approx((0.010, 0.786))


def test_probabilities_are_those_of_all_signs() -> None:
    draw = random.Random(1)
    sizes = [draw.uniform(0.1, 1) for _ in range(8)]

    def statistic(values: list[float]) -> int:
        ranks = sorted(values, key=abs)
        return sum(rank for rank, value in enumerate(ranks, start=1) if value > 0)

    every = [
        [sign * size for sign, size in zip(signs, sizes, strict=True)]
        for signs in product((-1, 1), repeat=len(sizes))
    ]
    for chosen in every[::17]:
        as_much = sum(statistic(values) >= statistic(chosen) for values in every)
        assert SignedRank(chosen).p_above(0) == as_much / len(every)
        mirrored = SignedRank([-value for value in chosen])
        assert mirrored.p_below(0) == SignedRank(chosen).p_above(0)


@pytest.mark.parametrize("count", [5, 9, 20])
def test_the_interval_ends_where_the_test_begins_to_reject(count: int) -> None:
    draw = random.Random(count)
    for _ in range(50):
        found = SignedRank([draw.gauss(0, 1) for _ in range(count)])
        low, high = found.interval(0.05)
        assert low < found.estimate < high
        for bound in (draw.gauss(0, 1) for _ in range(20)):
            assert (low > bound) == (found.p_above(bound) <= 0.05)
            assert (high < bound) == (found.p_below(bound) <= 0.05)


def test_too_few_rounds_show_nothing() -> None:
    assert SignedRank([1.0] * 4).interval(0.05) == (-math.inf, math.inf)
    assert SignedRank([1.0] * 5).interval(0.05) == (1.0, 1.0)


def _cauchy(draw: random.Random) -> float:
    return math.tan(math.pi * (draw.random() - 0.5))


def _bursts(draw: random.Random) -> float:
    return draw.gauss(0, 0.01) + draw.choice([0] * 8 + [-3, 3])


@pytest.mark.parametrize("noise", [_cauchy, _bursts])
def test_the_error_rate_holds_whatever_the_noise(noise: Callable[[random.Random], float]) -> None:
    draw, trials = random.Random(2), 2000
    wrong = sum(
        SignedRank([noise(draw) for _ in range(12)]).p_above(0) <= 0.05 for _ in range(trials)
    )
    # The exact rate is 0.0461 (of 12 ranks); three standard deviations of a count of so many trials.
    assert abs(wrong / trials - 0.0461) < 3 * math.sqrt(0.0461 / trials)


def one_round(base: list[float], head: list[float]) -> list[Slice]:
    """Of these costs, for every measure alike."""
    values = {"base": iter(base), "head": iter(head)}
    found = []
    for build in ORDERS[0]:
        cost = next(values[build])
        latency = {"hello": {"50": cost, "99": cost}}
        sample = {"cpu_us": cost, "requests_per_second": 1e6 / cost, "latency_us": latency}
        found += [
            Slice(build, path, loop, sample)
            for path in ("direct", "gateway")
            for loop in ("closed", "open")
        ]
    return found


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_more_is_worse_for_every_measure_and_the_opposite_is_as_much_better(measure) -> None:
    base, head = [100.0] * 4, [110.0] * 4
    assert difference(measure, one_round(base, head)) == pytest.approx(math.log(1.1))
    assert difference(measure, one_round(head, base)) == pytest.approx(-math.log(1.1))


def test_builds_take_turns_so_that_drift_meets_both() -> None:
    for order in ORDERS:
        for power in (0, 1, 2):
            sums = Counter()
            for place, build in enumerate(order):
                sums[build] += place**power
            assert sums["base"] == sums["head"]


def looked(*percent: float, margin: float = 5.0) -> str:
    """The verdict on one measure of which head's cost differs by so much, round by round."""
    values = [math.log1p(one / 100) for one in percent]
    (finding,) = verdict.look({"cpu": values}, {"cpu": margin}, looks=1).findings
    return finding.verdict


def test_verdicts() -> None:
    assert looked(*(9 + one / 10 for one in range(10))) == SLOWER
    assert looked(*(-9 - one / 10 for one in range(10))) == FASTER
    assert looked(*(one / 10 for one in range(-5, 5))) == NO_DIFFERENCE
    # Better, but perhaps not by the margin.
    assert looked(*(-1 - one for one in range(10))) == NO_SLOWER
    assert looked(*(-30, 40) * 5) == UNDECIDED
    # Worse for certain, but not certainly by more than does not matter.
    assert looked(*(4 + one / 5 for one in range(10))) == UNDECIDED
    assert looked(*[50] * 4) == UNDECIDED


def test_several_measures_are_judged_together() -> None:
    """Holm's adjustment: of four, the least probability counts four times, the next three times, ..."""
    worse = [math.log1p(one / 100) for one in (20, 21, 22, 23, 24)]
    same = [math.log1p(one / 100) for one in (-2, -1, 0.1, 1, 2)]
    alone = verdict.look({"a": worse}, {"a": 5.0}, 1).findings[0]
    assert (alone.p_slower, alone.verdict) == (1 / 32, SLOWER)
    found = verdict.look(
        {"a": worse, "b": same, "c": same, "d": same}, dict.fromkeys("abcd", 5.0), 1
    )
    assert [one.p_slower for one in found.findings] == [4 / 32, 1.0, 1.0, 1.0]
    assert [one.verdict for one in found.findings] == [UNDECIDED] + [NO_DIFFERENCE] * 3
    assert (found.verdict, found.decided) == (UNDECIDED, False)


def test_a_look_among_several_may_err_less() -> None:
    values = {"cpu": [math.log(1.2)] * 5}
    assert verdict.look(values, {"cpu": 5.0}, looks=1).verdict == SLOWER
    assert verdict.look(values, {"cpu": 5.0}, looks=2).verdict == UNDECIDED


def test_the_fewest_rounds_are_just_enough() -> None:
    for measures, looks in ((1, 1), (8, 1), (8, 3)):
        least = verdict.fewest_rounds(measures, looks)
        names = [str(number) for number in range(measures)]
        for rounds, wanted in ((least, SLOWER), (least - 1, UNDECIDED)):
            values = {name: [0.0] * rounds for name in names} | {"0": [1.0] * rounds}
            assert verdict.look(values, dict.fromkeys(names, 5.0), looks).verdict == wanted


@dataclass(frozen=True)
class Noise:
    """What lies between the truth and a sample, as standard deviations of logarithms."""

    start: float
    """Of a build from one start to the next: where its memory happens to lie."""
    sample: float
    drift: float
    """Of what the machine changes by, evenly, from the first slice of a round to the last."""


NOISE = {
    "cpu": Noise(start=0.01, sample=0.01, drift=0.02),
    "throughput": Noise(start=0.015, sample=0.02, drift=0.03),
    "p50": Noise(start=0.02, sample=0.04, drift=0.05),
    "p99": Noise(start=0.03, sample=0.12, drift=0.05),
}
"""By the kind of measure."""

MACHINES = {"quiet": 0.0, "busy": 0.1}
"""The share of slices that a neighbour disturbs."""

DISTURBED = 0.5
"""A disturbed sample is worse by up to this much, as a logarithm."""


def compared(
    seed: int,
    percent: Mapping[str, float],
    looks: Sequence[int],
    neighbours: float = MACHINES["busy"],
) -> Look:
    """One whole comparison, in which head is worse by so many percent, by the kind of measure."""
    draw = random.Random(seed)
    by_name = {measure.name: MARGINS[measure.kind] for measure in MEASURES}
    rounds: list[Round] = []
    for number in looks:
        rounds += [_round(draw, percent, neighbours) for _ in range(number - len(rounds))]
        found = verdict.look(differences(MEASURES, rounds), by_name, len(looks))
        if found.decided:
            break
    return found


def _round(draw: random.Random, percent: Mapping[str, float], neighbours: float) -> Round:
    slices = []
    for path in PATHS:
        for loop in ("closed", "open"):
            kinds = [one.kind for one in MEASURES if (one.path, one.loop) == (path, loop)]
            disturbed = [draw.random() < neighbours for _ in ORDERS[0]]
            slices += _slices(draw, (path, loop), kinds, percent, disturbed)
    return slices


def _slices(
    draw: random.Random,
    place: tuple[str, str],
    kinds: list[str],
    percent: Mapping[str, float],
    disturbed: Sequence[bool],
) -> list[Slice]:
    """The slices of one loop."""
    start = {kind: {build: draw.gauss(0, NOISE[kind].start) for build in BUILDS} for kind in kinds}
    drift = {kind: draw.gauss(0, NOISE[kind].drift) for kind in kinds}
    slices = []
    order = draw.choice(ORDERS)
    for number, build in enumerate(order):
        costs = {}
        for kind in kinds:
            truth = math.log1p(percent.get(kind, 0.0) / 100) if build == "head" else 0.0
            costs[kind] = math.exp(
                truth
                + start[kind][build]
                + drift[kind] * number / (len(order) - 1)
                + draw.gauss(0, NOISE[kind].sample)
                + (draw.uniform(0, DISTURBED) if disturbed[number] else 0.0)
            )
        slices.append(Slice(build, *place, _sample(costs)))
    return slices


def _sample(costs: Mapping[str, float]) -> Sample:
    """As the load generator tells it, of the costs by kind."""
    return {
        "cpu_us": costs.get("cpu", 1.0),
        "requests_per_second": 1 / costs.get("throughput", 1.0),
        "latency_us": {"hello": {"50": costs.get("p50", 1.0), "99": costs.get("p99", 1.0)}},
    }


def verdicts(percent: dict[str, float], comparisons: int, machine: str = "busy") -> Counter[str]:
    """How often each verdict is given where head is worse by so much, by kind."""
    neighbours = MACHINES[machine]
    found = (compared(seed, percent, LOOKS, neighbours) for seed in range(comparisons))
    return Counter(one.verdict for one in found)


def test_equal_builds_are_not_called_slower() -> None:
    assert verdicts({}, 150)[SLOWER] == 0


def test_equal_builds_are_found_equal_on_a_quiet_machine() -> None:
    found = verdicts({}, 60, "quiet")
    assert found[SLOWER] == 0
    assert found[NO_SLOWER] + found[NO_DIFFERENCE] >= 55


def test_the_margin_itself_is_called_slower_as_rarely_as_it_is_said() -> None:
    found = verdicts(MARGINS, 150)
    # At most 5%: more than 15 of 150 would come once in 500 times.
    assert found[SLOWER] <= 15
    assert found[NO_SLOWER] + found[NO_DIFFERENCE] + found[FASTER] <= 15


@pytest.mark.parametrize("percent", [{"cpu": 15.0, "throughput": 15.0}, {"p99": 60.0}])
def test_what_is_much_slower_is_found(percent: dict[str, float]) -> None:
    assert verdicts(percent, 60)[SLOWER] >= 57


def test_a_comparison_ends_as_soon_as_it_is_decided() -> None:
    rounds = [compared(seed, {"cpu": 30.0}, LOOKS).rounds for seed in range(20)]
    assert median(rounds) == LOOKS[0]
    assert compared(1, MARGINS, LOOKS).rounds == LOOKS[-1]
