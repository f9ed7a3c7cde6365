"""What is judged: quantities of two loops, direct and through the gateway."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

Sample = dict
"""What one run of the load generator saw, and the CPU time of what it asked."""

BUILDS = ("base", "head")
PATHS = ("direct", "gateway")

ORDERS = tuple(
    tuple(BUILDS[first ^ int(place)] for place in "01101001") for first in range(len(BUILDS))
)
"""Of the slices of a round: ABBA BAAB, and the same with the builds exchanged. What drifts evenly through a
round meets both alike, and so does a drift that grows evenly."""

LOOKS = (10, 15, 20)
"""Rounds after which the verdict is computed; after other last rounds than the usual, it is computed once."""

MARGINS = {"cpu": 3.0, "throughput": 5.0, "p50": 10.0, "p99": 20.0}
"""Percent by which a build may be slower before it counts, by the kind of measure."""


@dataclass(frozen=True)
class Measure:
    """One quantity, and how much of it does not matter."""

    kind: str
    path: str
    loop: str
    """`closed` or `open`."""
    unit: str
    quantity: Callable[[Sample], float]
    more_is_better: bool = False

    @property
    def name(self) -> str:
        """As in cpu-direct."""
        return f"{self.kind}-{self.path}"

    def costs(self, samples: Iterable[Sample]) -> float:
        """The logarithm of the cost in the mean of some samples: more is worse, for any measure."""
        sign = -1 if self.more_is_better else 1
        return sign * fmean(math.log(self.quantity(sample)) for sample in samples)


@dataclass(frozen=True)
class Slice:
    """One short measurement of one build, in a round."""

    build: str
    path: str
    loop: str
    sample: Sample


Round = Sequence[Slice]


def _cpu(sample: Sample) -> float:
    return sample["cpu_us"]


def _rate(sample: Sample) -> float:
    return sample["requests_per_second"]


def _p50(sample: Sample) -> float:
    return sample["latency_us"]["hello"]["50"]


def _p99(sample: Sample) -> float:
    return sample["latency_us"]["hello"]["99"]


MEASURES = tuple(
    measure
    for path in PATHS
    for measure in (
        Measure("cpu", path, "closed", "µs/request", _cpu),
        Measure("throughput", path, "closed", "requests/s", _rate, more_is_better=True),
        Measure("p50", path, "open", "µs", _p50),
        Measure("p99", path, "open", "µs", _p99),
    )
)


def difference(measure: Measure, done: Round) -> float:
    """The logarithm of what head costs in what base costs, in one round.

    As a mean of logarithms, that of base in head is exactly the opposite of it.
    """
    base, head = (measure.costs(samples(measure, done, build)) for build in BUILDS)
    return head - base


def differences(measures: Iterable[Measure], rounds: Sequence[Round]) -> dict[str, list[float]]:
    """Those of all rounds, by the measure's name."""
    return {measure.name: [difference(measure, done) for done in rounds] for measure in measures}


def samples(measure: Measure, done: Round, build: str) -> list[Sample]:
    """The samples of a build in one round that a measure is taken from."""
    place = (build, measure.path, measure.loop)
    return [one.sample for one in done if (one.build, one.path, one.loop) == place]
