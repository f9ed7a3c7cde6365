"""The rules by which a HorizontalPodAutoscaler changes a number of replicas.

As the controller of Kubernetes 1.33 has them: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/
"""

import math
from dataclasses import dataclass, field

TOLERANCE = 0.1
"""The controller's default: a ratio this near to 1 changes nothing."""


@dataclass(frozen=True)
class Reading:
    """What an autoscaler reads."""

    total: float
    """Sum of a metric over the replicas that have it, or the value of an external one."""
    known: int
    """Replicas that have the metric."""
    unready: int = 0
    """Replicas that are not ready yet."""
    missing: int = 0
    """Ready replicas that do not have the metric yet."""


def near(ratio: float) -> bool:
    """Whether a ratio changes nothing."""
    return 1 - TOLERANCE <= ratio <= 1 + TOLERANCE


def by_average(reading: Reading, target: float, current: int) -> int:
    """Replicas for an average of a metric of pods."""
    if not reading.known:
        return current
    ratio = reading.total / (target * reading.known)
    if near(ratio):
        return current
    # To scale up, those that say nothing are taken to do nothing; to scale down, to be at the target.
    total, count = reading.total, reading.known + reading.missing
    if ratio > 1:
        count += reading.unready
    else:
        total += reading.missing * target
    again = total / (target * count)
    if near(again) or (again > 1) != (ratio > 1):
        return current
    wanted = math.ceil(round(again * count, 9))
    return current if (wanted > current) != (ratio > 1) else wanted


def by_number(total: float, current: int) -> int:
    """Replicas for an external metric that is a number of replicas: an average of 1."""
    return current if near(total / current) else math.ceil(total)


@dataclass(frozen=True)
class Direction:
    """How fast it goes up or down: by the policy that allows most, after its window."""

    window: int = 0
    pods: int = 0
    percent: float = 0
    period: int = 15

    def change(self, count: int, sign: int) -> int:
        """The number that a period may reach from this one."""
        factor = max(0.0, 1 + sign * self.percent / 100)
        relative = math.ceil(count * factor) if sign > 0 else int(count * factor)
        return (max if sign > 0 else min)(count + sign * self.pods, relative)


UP = Direction(pods=4, percent=100)
DOWN = Direction(window=300, percent=100)
"""The defaults of Kubernetes."""


@dataclass
class Autoscaler:
    """Keeps a number of replicas between bounds."""

    least: int
    most: int
    up: Direction = UP
    down: Direction = DOWN
    _wanted: list[tuple[int, int]] = field(default_factory=list)
    _changes: list[tuple[int, int]] = field(default_factory=list)

    def sync(self, now: int, current: int, wanted: int) -> int:
        """The number to have, where so many are and are wanted."""
        self._wanted.append((now, wanted))
        wanted = self._bounded(now, current, self._stable(now, current))
        if wanted != current:
            self._changes.append((now, wanted - current))
        return wanted

    def _stable(self, now: int, current: int) -> int:
        """Nothing that was not wanted throughout a window."""
        longest = max(self.up.window, self.down.window)
        self._wanted = [one for one in self._wanted if one[0] > now - longest or one[0] == now]

        def within(window: int) -> list[int]:
            return [wanted for at, wanted in self._wanted if at > now - window or at == now]

        return min(max(current, min(within(self.up.window))), max(within(self.down.window)))

    def _bounded(self, now: int, current: int, wanted: int) -> int:
        sign = 1 if wanted > current else -1
        direction = self.up if sign > 0 else self.down
        begun = current - sum(by for at, by in self._changes if at > now - direction.period)
        limit = direction.change(begun, sign)
        wanted = min(wanted, max(limit, current)) if sign > 0 else max(wanted, min(limit, current))
        return min(max(wanted, self.least), self.most)
