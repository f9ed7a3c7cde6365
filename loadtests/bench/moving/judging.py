"""Whether a busy connection costs the same with parking and moving as without: a verdict, and its interval.

By the rules of `loadtests/compare`: the ratio of each round counts once, as a logarithm.
"""

import math
from collections.abc import Mapping, Sequence

from loadtests.bench.moving.bench import Sample
from loadtests.compare import verdict
from loadtests.compare.signed_rank import SignedRank
from loadtests.compare.verdict import Finding

BASE = "off"
"""The arm that all others are compared with."""

MARGIN = 2.0
"""Percent by which the cost of a busy connection may differ."""

LOOKS = 3
"""The verdict is asked for so often at most: each look may err for its part of what is allowed in all."""

OPEN = (verdict.UNDECIDED, verdict.NO_SLOWER)
"""More rounds may still show that it is within the margin."""

SAID = {
    verdict.NO_DIFFERENCE: "shown",
    verdict.NO_SLOWER: "undecided; no dearer by as much",
    verdict.UNDECIDED: "undecided",
    verdict.SLOWER: "not so: dearer by more",
    verdict.FASTER: "not so: cheaper by more",
}
"""Of "within the margin"."""

Results = Mapping[str, Sequence[Sample]]


def base_of(name: str) -> str:
    """The samples that those of an arm are compared with."""
    return f"{name.rpartition(': ')[0]}: {BASE}"


def judged(results: Results, name: str) -> Finding:
    """What the rounds say of an arm's CPU per request."""
    found = {name: differences(results[name], results[base_of(name)], "cpu_us")}
    (finding,) = verdict.look(found, {name: MARGIN}, LOOKS).findings
    return finding


def decided(results: Results) -> bool:
    """Whether more rounds would say nothing new of any arm."""
    arms = [name for name in results if name != base_of(name)]
    return all(judged(results, name).verdict not in OPEN for name in arms)


def percent(samples: Sequence[Sample], base: Sequence[Sample], figure: str) -> str:
    """By how many percent a figure differs: the estimate, and the interval that goes with the verdict."""
    rank = SignedRank(differences(samples, base, figure))
    bounds = rank.interval(verdict.ERROR / LOOKS)
    estimate, low, high = (100 * math.expm1(value) for value in (rank.estimate, *bounds))
    # Few rounds have no bounds.
    return f"{estimate:+.2f}" + f" ({low:+.2f} to {high:+.2f})" * math.isfinite(high)


def differences(samples: Sequence[Sample], base: Sequence[Sample], figure: str) -> list[float]:
    """Logarithms of the ratios, round by round."""
    pairs = zip(samples, base, strict=True)
    return [math.log(mine[figure] / other[figure]) for mine, other in pairs]
