"""How cost grows beyond what was measured: laws with few terms, fitted to medians, and their limits."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

NOISE = 0.05
"""What is within this share of a constant is called constant."""


@dataclass(frozen=True)
class Law:
    """The universal scalability law: throughput of n CPUs in that of one
    (Gunther, *Guerrilla Capacity Planning*, 2007)."""

    contention: float
    """Share of the work that one CPU at a time can do (Amdahl's): costs n."""
    coherence: float = 0.0
    """Share that each pair of CPUs spends on agreeing: costs n²."""

    def speed_up(self, cpus: float) -> float:
        """Throughput of so many CPUs in that of one."""
        waits = self.contention * (cpus - 1) + self.coherence * cpus * (cpus - 1)
        return cpus / (1 + waits)

    def best(self) -> float:
        """CPUs above which more make it slower."""
        if self.coherence == 0:
            return math.inf
        return math.sqrt(max(0.0, 1 - self.contention) / self.coherence)


def between(two_cpus: float) -> tuple[Law, Law]:
    """The laws that agree with a speed-up on two CPUs and lie farthest apart beyond: all that was lost
    is contention, or all is coherence. One ratio cannot tell them apart."""
    lost = max(0.0, 2 / two_cpus - 1)
    return Law(lost), Law(0.0, lost / 2)


FORMS: Mapping[str, Callable[[float], float]] = {
    "constant": lambda n: 0.0,
    "log2 n": math.log2,
    "n": float,
    "n · log2 n": lambda n: n * math.log2(n),
}
"""What grows how; the simplest first."""


@dataclass(frozen=True)
class Growth:
    """A cost of n: `base + slope · form(n)`."""

    form: str
    base: float
    slope: float
    error: float
    """Root mean square of what the points are off, as a share of each."""

    def at(self, n: float) -> float:
        """The cost of n."""
        return self.base + self.slope * FORMS[self.form](n)

    def text(self, unit: str, digits: int = 2) -> str:
        """As a formula."""
        base = f"{self.base:.{digits}f} {unit}"
        if self.form == "constant":
            return base
        # Slopes are small: as many digits as tell them from nothing.
        return f"{base} + {self.slope:.2g} {unit} · {self.form}"


def growth(points: Sequence[tuple[float, float]], forms: Sequence[str] = tuple(FORMS)) -> Growth:
    """The simplest form that fits: a later one is taken only where it halves the error of those before it.

    Errors count as shares of the value, because small and large values are measured equally well.
    """
    found = _fitted(points, forms[0])
    for form in forms[1:]:
        if len(points) < 3 or found.error <= NOISE:
            break
        other = _fitted(points, form)
        if other.slope > 0 and other.error < found.error / 2:
            found = other
    return found


def _fitted(points: Sequence[tuple[float, float]], form: str) -> Growth:
    """Least squares of relative errors; neither term is below 0."""
    rows = [(1 / value, FORMS[form](n) / value) for n, value in points]
    one, two = (sum(row[index] for row in rows) for index in (0, 1))
    squares = [sum(row[a] * row[b] for row in rows) for a, b in ((0, 0), (0, 1), (1, 1))]
    determinant = squares[0] * squares[2] - squares[1] ** 2
    if determinant > 1e-12 * squares[0] * squares[2]:
        base = (one * squares[2] - two * squares[1]) / determinant
        slope = (two * squares[0] - one * squares[1]) / determinant
    else:
        base, slope = one / squares[0], 0.0
    if slope < 0:
        base, slope = one / squares[0], 0.0
    elif base < 0:
        base, slope = 0.0, two / squares[2]
    off = [base * a + slope * b - 1 for a, b in rows]
    return Growth(form, base, slope, math.sqrt(sum(e * e for e in off) / len(off)))


def crossing(lower: Growth, higher: Growth, share: float, most: float = 1e6) -> float:
    """The n from which on `higher` costs that share more than `lower`; infinite if not up to `most`."""
    low, high = 1.0, most
    if higher.at(high) < (1 + share) * lower.at(high):
        return math.inf
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        if higher.at(middle) < (1 + share) * lower.at(middle):
            low = middle
        else:
            high = middle
    return high


def hottest(connections: int, lanes: int) -> float:
    """Connections on the fullest of the lanes in those of the mean lane, when each connection goes to a lane
    by chance: what hashing does. The mean of a multinomial distribution's maximum."""
    expected = 0.0
    # E[max] is the sum over m of P(max > m).
    for most in range(connections):
        above = 1 - _none_above(most, connections, lanes)
        if above < 1e-6:
            break
        expected += above
    return expected * lanes / connections


def _none_above(most: int, connections: int, lanes: int) -> float:
    """P(no lane has more): as many Poisson variables as lanes, given their sum (Levin, *A Representation for
    Multinomial Cumulative Distribution Functions*, 1981)."""
    if most * lanes < connections:
        return 0.0
    mean = connections / lanes
    one = [_poisson(n, mean) for n in range(most + 1)]
    chances = [1.0]
    for bit in f"{lanes:b}":
        chances = _sum_of(chances, chances, connections)
        if bit == "1":
            chances = _sum_of(chances, one, connections)
    return chances[connections] / _poisson(connections, connections)


def _poisson(n: int, mean: float) -> float:
    return math.exp(n * math.log(mean) - mean - math.lgamma(n + 1))


def _sum_of(one: Sequence[float], other: Sequence[float], most: int) -> list[float]:
    """The distribution of a sum, up to `most`."""
    found = [0.0] * min(len(one) + len(other) - 1, most + 1)
    for a, first in enumerate(one):
        for b, second in enumerate(other[: len(found) - a]):
            found[a + b] += first * second
    return found


@dataclass(frozen=True)
class Fleet:
    """Pods behind gateways: what their number alone costs, whatever is asked."""

    pods: int
    gateways: int
    workers: int = 1
    """Of each gateway."""

    def checks_per_second(self, interval: float = 1.0) -> float:
        """Health checks of all gateways: n · m."""
        return self.pods * self.gateways / interval

    def check_cores(self, microseconds: float, interval: float = 1.0) -> float:
        """CPUs that the gateways spend on health checks, of so many microseconds each."""
        return self.checks_per_second(interval) * microseconds / 1e6

    def update_bytes(self, bytes_per_pod: float) -> float:
        """Endpoint files written anew when one pod changes: n · m."""
        return self.pods * self.gateways * bytes_per_pod

    def rollout_bytes(self, bytes_per_pod: float) -> float:
        """... and when all pods are replaced one after the other, twice a pod: n² · m."""
        return 2 * self.pods * self.update_bytes(bytes_per_pod)

    def connections(self) -> int:
        """Kept connections to the pods: each worker has pools of its own, and in time has asked each pod."""
        return self.pods * self.gateways * self.workers
