"""Benchmark calculations: ratios, verdicts, rankings and statistics."""

import random
from itertools import product

import pytest

from loadtests.bench.balancing.scenarios import capacity, recovery
from loadtests.bench.compare import verdict
from loadtests.bench.compare.verdict import SignedRank
from loadtests.bench.competitors.ranking import BEHIND, FIRST, LEVEL, place
from loadtests.bench.experiment.page import Figure
from loadtests.bench.experiment.record import Record

pytestmark = pytest.mark.nightly


def test_ratios_are_taken_within_a_round() -> None:
    costs = {"base": [20.0, 40.0, 24.0], "mine": [22.0, 44.0, 36.0]}
    rows = [
        {"arm": arm, "round": number, "cost": {"us": cost}}
        for arm, found in costs.items()
        for number, cost in enumerate(found, 1)
    ]
    record = Record("x", {}, rows=rows)
    # The overall medians, 36 and 24, would give 1.50.
    figure = Figure("", "cost.us", over={"arm": "base"})
    assert figure.cell(record, {"arm": "mine"}) == "1.10 (1.10–1.50)"
    assert Figure("", "cost.us", 0).cell(record, {"arm": "base"}) == "24 (20–40)"
    assert Figure("", "absent").cell(record, {"arm": "base"}) == "–"


@pytest.mark.parametrize(
    ("ours", "theirs", "more_is_better", "expected"),
    [
        ([3.0, 3.1, 3.0], [3.2, 3.2, 3.3], False, FIRST),
        ([3.0, 3.3, 3.0], [3.2, 3.2, 3.3], False, LEVEL),
        ([3.4, 3.3, 3.5], [3.2, 3.2, 3.3], False, BEHIND),
        ([7.0, 7.1, 7.2], [8.0, 8.1, 8.2], True, BEHIND),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], False, LEVEL),
    ],
)
def test_first_and_behind_need_all_rounds(ours, theirs, more_is_better, expected) -> None:
    values = {"us": dict(enumerate(ours)), "hyper": dict(enumerate(theirs))}
    assert place("us", values, more_is_better).standing == expected


def test_capacity_is_where_the_p99_leaves_the_objective() -> None:
    assert capacity({40: 20.0, 50: 30.0}) == 0.0
    assert capacity({40: 2.0, 50: 3.0}) == 50.0
    # Halfway on a logarithmic scale.
    assert capacity({40: 2.0, 50: 5.0, 60: 20.0}) == pytest.approx(55.0)


def test_recovery_is_three_good_windows_in_a_row() -> None:
    # At first, only two consecutive windows are good.
    slow = {*range(3000), *range(4000, 5000)}
    found = [
        (float(due), 500.0 if due in slow else 10.0, False, True) for due in range(0, 10_000, 10)
    ]
    assert recovery(found, 2.0, 10.0) == 3.0
    assert recovery([(due, 500.0, False, True) for due, *_ in found], 2.0, 10.0) is None


def test_a_published_example_comes_out_as_published() -> None:
    """Depression scores before and after a tranquilliser: Hollander and Wolfe, example 3.1."""
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    found = SignedRank([one - other for one, other in zip(before, after, strict=True)])
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


def test_a_verdict_needs_more_than_the_margin_in_any_measure_or_less_in_all() -> None:
    def judged(*shifts: float) -> str:
        draw = random.Random(3)
        found = {
            str(n): [shift + draw.gauss(0, 0.001) for _ in range(12)]
            for n, shift in enumerate(shifts)
        }
        return verdict.look(found, dict.fromkeys(found, 5.0), looks=1).verdict

    assert judged(0.2, 0.0) == verdict.SLOWER
    assert judged(0.0, 0.0) == verdict.NO_DIFFERENCE
    assert judged(-0.2, 0.0) == verdict.FASTER
    assert judged(0.048, 0.0) == verdict.UNDECIDED
