"""Percentiles are exact, whatever the number of latencies and the memory for them."""

import random
import tracemalloc
from itertools import chain

import pytest

from loadtests.report.samples import Spool, ordered, quantiles

pytestmark = pytest.mark.fast

PERCENTS = (0, 0.1, 1, 50, 50, 90, 99, 99.9, 99.99, 100)


def exact(values: list[float], percent: float) -> float:
    """By definition: linear between the two nearest of all values in order."""
    values = sorted(values)
    rank = (len(values) - 1) * percent / 100
    low = int(rank)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (rank - low)


@pytest.mark.parametrize("limit", [100, 3333, 10**6], ids=["all spilled", "partly", "none"])
@pytest.mark.parametrize("count", [1, 2, 7, 9999])
def test_they_are_those_of_all_values(count: int, limit: int) -> None:
    chance = random.Random(count)
    spool = Spool(limit)
    series = [spool.series() for _ in range(3)]
    values = [chance.lognormvariate(0, 2) for _ in range(count)]
    for index, value in enumerate(values):
        series[index % 3].add(index // 50, value)
    pieces = chain.from_iterable(one.of(one.seconds()) for one in series)
    found = quantiles(ordered(pieces, limit), count, PERCENTS)
    assert found == pytest.approx([exact(values, percent) for percent in PERCENTS], rel=1e-12)


def test_a_second_is_found_again_after_it_was_spilled() -> None:
    spool = Spool(10)
    series = spool.series()
    for value in range(100):
        series.add(value % 4, float(value))
    assert series.seconds() == [0, 1, 2, 3]
    found = [value for piece in series.of([2]) for value in piece]
    assert sorted(found) == [float(value) for value in range(2, 100, 4)]


def test_memory_does_not_grow_with_their_number() -> None:
    limit, peaks = 2000, []
    for count in (10_000, 100_000):
        chance = random.Random(1)
        tracemalloc.start()
        spool = Spool(limit)
        series = spool.series()
        for _ in range(count):
            series.add(0, chance.random())
        quantiles(ordered(series.of([0]), limit), count, PERCENTS)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # The pieces of the file are remembered; the values are not.
    assert peaks[1] < 2 * peaks[0]
    assert peaks[1] < 100_000 * 8
