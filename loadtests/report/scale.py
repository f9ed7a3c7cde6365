"""Axes of charts: linear, logarithmic, and nines, which gives the tail as much room as the rest."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

STEPS = (1, 2, 5)


def number(value: float) -> str:
    """A figure with as many digits as tell something."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"


LETTER = 7.6
"""About the width of a figure of a tick."""


def roomy(ticks: Sequence[tuple[float, str]], place: Callable[[float], float]) -> set[float]:
    """The ticks whose labels do not overlap those on their right, where the important ones are."""
    found, begin = set(), math.inf
    for value, text in reversed(ticks):
        half = LETTER * len(text) / 2
        if place(value) + half < begin:
            found.add(value)
            begin = place(value) - half - 1.3 * LETTER
    return found


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`."""

    label: str
    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value is, from 0 to 1; what is beyond is at the end."""
        return min(1.0, max(0.0, self._share(value)))

    def ticks(self) -> list[tuple[float, str]]:
        """Values to mark, with their texts."""
        raise NotImplementedError

    def _share(self, value: float) -> float:
        raise NotImplementedError


class Linear(Axis):
    """Equal steps."""

    def ticks(self) -> list[tuple[float, str]]:
        """Four to eight round numbers."""
        span = self.high - self.low
        rough = 10 ** math.floor(math.log10(span / 4))
        step = max(
            (rough * factor for factor in STEPS if rough * factor <= span / 4), default=rough
        )
        first = math.ceil(self.low / step)
        digits = 0 if step >= 1 else 1 if step >= 0.1 else 2
        return [
            (value, _large(value) or f"{value:,.{digits}f}")
            for value in (step * k for k in range(first, math.floor(self.high / step + 1e-9) + 1))
        ]

    def _share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


class Percent(Linear):
    """Shares from 0 to 1, shown as percent."""

    def ticks(self) -> list[tuple[float, str]]:
        """Quarters."""
        return [(step / 4, f"{25 * step}%") for step in range(int(self.high * 4) + 1)]


class Log(Axis):
    """Equal factors."""

    @classmethod
    def around(cls, label: str, values: Iterable[float]) -> "Log":
        """An axis that has room for all values; those that are not above 0 are at its low end."""
        above = [value for value in values if value is not None and value > 0]
        low, high = _down(min(above, default=1.0)), _up(max(above, default=10.0))
        return cls(label, low, max(high, 2 * low))

    def ticks(self) -> list[tuple[float, str]]:
        """Powers of ten, with 2 and 5 between where there is room."""
        decades = math.log10(self.high / self.low)
        factors = STEPS if decades <= 3 else (1,)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        values = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        return [
            (value, _large(value) or (f"{value:,.0f}" if value >= 1 else f"{value:g}"))
            for value in values
            if self.low * 0.999 <= value <= self.high * 1.001
        ]

    def _share(self, value: float) -> float:
        return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)


class Nines(Axis):
    """Percent by their nines, as HdrHistogram's plots have it: from 90 to 99 is as far as from 99 to 99.9."""

    @classmethod
    def of(cls, requests: int) -> "Nines":
        """An axis whose end is the slowest of so many."""
        return cls("percent of the requests that were as fast or faster", 0, slowest(requests))

    def ticks(self) -> list[tuple[float, str]]:
        """0, 50, 90, 99, 99.9, ..."""
        percents = [0.0, 50.0, 75.0, *(100 - 10.0 ** (1 - nine) for nine in range(7))]
        return [
            (percent, f"{round(percent, 6):g}%") for percent in percents if percent <= self.high
        ]

    def _share(self, value: float) -> float:
        return _nines(value) / _nines(self.high)


def slowest(requests: int) -> float:
    """The percent at which the slowest request is drawn: half of it is beyond (Hazen's position)."""
    return 100 * (1 - 0.5 / max(1, requests))


def _nines(percent: float) -> float:
    return -math.log10(max(1e-12, 1 - percent / 100))


def _large(value: float) -> str:
    """What would be too long for an axis."""
    if value < 100_000:
        return ""
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k"


def _down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max(power * factor for factor in STEPS if power * factor <= value * 1.000001)


def _up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return min(power * factor for factor in (*STEPS, 10) if power * factor >= value * 0.999999)
