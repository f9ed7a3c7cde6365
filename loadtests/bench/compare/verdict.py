"""Judges the rounds: is head slower, for each measure and overall?

A difference below a measure's margin does not matter. A comparison can make two claims, and each of
them is wrong in at most `ERROR` of all comparisons, whatever the truth is:

- "slower": some measure is worse by more than its margin. With several measures, one of them may
look slower by accident, so their probabilities are adjusted with Holm's method (Scandinavian
Journal of Statistics 6, 1979). - "no slower": no measure is worse by its margin. Every measure must
show this on its own, so no adjustment is needed (Berger, Technometrics 24, 1982: intersection-union
tests). With "no faster" this is the usual test of equivalence by two one-sided tests (Schuirmann,
J. Pharmacokinetics and Biopharmaceutics 15, 1987).

All other comparisons are undecided and get more rounds. With several looks, random differences are
more likely to be found, so each look may be wrong only in its part of `ERROR` (Bonferroni).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, combinations_with_replacement
from statistics import median


class SignedRank:
    """The size of paired differences, for any kind of noise.

    The signed-rank test (Wilcoxon, Biometrics Bulletin 1, 1945) assumes only that the rounds'
    differences are symmetric about the true one. Two equal builds in random order satisfy this
    assumption for every kind of noise, so their error rate is exact, and disturbed rounds cannot
    raise it. Estimate and interval belong to the test: Hodges and Lehmann (Annals of Mathematical
    Statistics 34, 1963). Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods
    (3rd edition, 2014), sections 3.1 to 3.3.
    """

    def __init__(self, differences: Sequence[float]) -> None:
        pairs = combinations_with_replacement(differences, 2)
        # Walsh averages: the number of averages above a value is the test statistic for that value.
        self._averages = sorted((one + other) / 2 for one, other in pairs)
        self._tails = _tails(len(differences))

    @property
    def estimate(self) -> float:
        return median(self._averages)

    def p_above(self, bound: float) -> float:
        """Probability of differences at least this far above `bound`, if the true one is at most `bound`."""
        return self._tails[len(self._averages) - bisect_right(self._averages, bound)]

    def p_below(self, bound: float) -> float:
        """Probability of differences at least this far below `bound`, if the true one is at least `bound`."""
        return self._tails[bisect_left(self._averages, bound)]

    def interval(self, error: float) -> tuple[float, float]:
        """Bounds that the true difference exceeds with at most this probability on either side.

        The lower bound is above a value exactly if that value's `p_above` is at most `error`.
        """
        count = len(self._averages)
        # By symmetry, one fewer average may be on the wrong side of a bound.
        outside = sum(tail <= error for tail in self._tails)
        if outside == 0:
            return -math.inf, math.inf
        return self._averages[outside - 1], self._averages[count - outside]


@cache
def _tails(count: int) -> tuple[float, ...]:
    """Probabilities that the statistic is at least 0, 1, 2, ..., if the true difference is 0."""
    # Each of the ranks 1 to `count` counts with probability 1/2.
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        ways = [
            one + (longer[index - rank] if index >= rank else 0) for index, one in enumerate(longer)
        ]
    return tuple(total / 2**count for total in list(accumulate(reversed(ways)))[::-1])


ERROR = 0.05

SLOWER, UNDECIDED = "slower", "undecided"
NO_SLOWER, NO_DIFFERENCE, FASTER = "no slower", "no difference", "faster"


@dataclass(frozen=True)
class Finding:
    """Result for one measure: cost of head relative to base, where higher is worse."""

    measure: str
    verdict: str
    ratio: float
    low: float
    high: float
    margin: float
    p_slower: float
    """Adjusted probability that chance alone shows this result, or a more extreme one, if head were
    worse by exactly the margin.
    """


@dataclass(frozen=True)
class Look:
    """Result after some rounds."""

    rounds: int
    error: float
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        verdicts = {finding.verdict for finding in self.findings}
        if SLOWER in verdicts:
            return SLOWER
        if UNDECIDED in verdicts:
            return UNDECIDED
        if verdicts == {NO_DIFFERENCE}:
            return NO_DIFFERENCE
        return FASTER if FASTER in verdicts else NO_SLOWER

    @property
    def decided(self) -> bool:
        return self.verdict != UNDECIDED


def look(
    differences: Mapping[str, Sequence[float]], margins: Mapping[str, float], looks: int
) -> Look:
    """Judges all measures by the differences to date; `looks` is the maximum number of looks.

    The margins are in percent, by measure.
    """
    error = ERROR / looks
    ranks = {name: SignedRank(values) for name, values in differences.items()}
    limits = {name: math.log1p(margins[name] / 100) for name in ranks}
    slower = _holm({name: rank.p_above(limits[name]) for name, rank in ranks.items()})
    faster = _holm({name: rank.p_below(-limits[name]) for name, rank in ranks.items()})
    findings = []
    for name, rank in ranks.items():
        low, high = rank.interval(error)
        inside = (low >= -limits[name], high <= limits[name])
        findings.append(
            Finding(
                measure=name,
                verdict=_verdict(slower[name] <= error, faster[name] <= error, inside),
                ratio=math.exp(rank.estimate),
                low=math.exp(low),
                high=math.exp(high),
                margin=margins[name],
                p_slower=slower[name],
            )
        )
    return Look(len(next(iter(differences.values()))), error, tuple(findings))


def _verdict(slower: bool, faster: bool, inside: tuple[bool, bool]) -> str:
    if slower:
        return SLOWER
    if faster:
        return FASTER
    if all(inside):
        return NO_DIFFERENCE
    return NO_SLOWER if inside[1] else UNDECIDED


def _holm(probabilities: Mapping[str, float]) -> dict[str, float]:
    """Adjusts probabilities so that each can be compared with the error of the entire family."""
    adjusted, most = {}, 0.0
    order = sorted(probabilities, key=lambda name: probabilities[name])
    for index, name in enumerate(order):
        most = max(most, min(1.0, probabilities[name] * (len(order) - index)))
        adjusted[name] = most
    return adjusted


def fewest_rounds(measures: int, looks: int) -> int:
    return math.ceil(math.log2(measures * looks / ERROR))
