"""How large paired differences are, whatever the noise is like.

The signed-rank test (Wilcoxon, Biometrics Bulletin 1, 1945) assumes that the differences of the rounds are
symmetric about the true one, and nothing else. Two equal builds in random order satisfy that for every kind
of noise. So its error rate is exact there: disturbed rounds cannot raise it. Estimate and interval belong to
the test: Hodges and Lehmann (Annals of Mathematical Statistics 34, 1963). The source is Hollander, Wolfe and
Chicken, Nonparametric Statistical Methods (3rd edition, 2014), sections 3.1 to 3.3.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, combinations_with_replacement
from statistics import median


class SignedRank:
    """What a sample of differences says of the true one."""

    def __init__(self, differences: Sequence[float]) -> None:
        pairs = combinations_with_replacement(differences, 2)
        # Walsh averages: so many of them above a value is the test's statistic for that value.
        self._averages = sorted((one + other) / 2 for one, other in pairs)
        self._tails = _tails(len(differences))

    @property
    def estimate(self) -> float:
        """The Hodges-Lehmann estimate."""
        return median(self._averages)

    def p_above(self, bound: float) -> float:
        """The probability of differences at least this far above, if the true one is `bound` or less."""
        return self._tails[len(self._averages) - bisect_right(self._averages, bound)]

    def p_below(self, bound: float) -> float:
        """The probability of differences at least this far below, if the true one is `bound` or more."""
        return self._tails[bisect_left(self._averages, bound)]

    def interval(self, error: float) -> tuple[float, float]:
        """Bounds that the true difference is beyond with at most this probability on either side.

        The lower one is above a value exactly where `p_above` of that value is at most `error`.
        """
        count = len(self._averages)
        # By symmetry, so many averages may be on the wrong side of a bound, less one.
        outside = sum(tail <= error for tail in self._tails)
        if outside == 0:
            return -math.inf, math.inf
        return self._averages[outside - 1], self._averages[count - outside]


@cache
def _tails(count: int) -> tuple[float, ...]:
    """The probability that the statistic is at least 0, 1, 2, ..., if the true difference is 0."""
    # Of the ranks 1 to `count`, each is counted with probability 1/2.
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        ways = [
            one + (longer[index - rank] if index >= rank else 0) for index, one in enumerate(longer)
        ]
    return tuple(total / 2**count for total in list(accumulate(reversed(ways)))[::-1])
