"""Fills variables into a query as Grafana and its data source for Prometheus do.

Grafana's documentation, "Variable syntax" and "Prometheus template variables", says what this follows.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tools.errors import ToolError

ALL = "$__all"

REFERENCE = re.compile(r"\$(\w+)|\$\{(\w+)(?::(\w+))?\}|\[\[(\w+)(?::(\w+))?\]\]")

NICE = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600)
"""Seconds to which Grafana rounds an interval (rangeutil.roundInterval)."""

MOST_POINTS = 11_000
"""Prometheus refuses to answer with more points of a series."""


@dataclass(frozen=True)
class Range:
    """The time that is looked at, and how often its data source is said to be scraped, in seconds."""

    start: float
    end: float
    scrape: float
    points: int = 600
    """As wide as a panel is, in pixels."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start

    @property
    def step(self) -> float:
        """$__interval: a point for each pixel, but no more than there are scrapes."""
        raw = self.seconds / self.points
        nice = next((each for each in NICE if each >= raw), NICE[-1])
        return max(nice, self.scrape, -(-self.seconds // MOST_POINTS))

    @property
    def rate_interval(self) -> float:
        """$__rate_interval: at least four scrapes, so that a rate always has two samples."""
        return max(self.step + self.scrape, 4 * self.scrape)

    def variables(self) -> dict[str, str]:
        """The built-in variables of time."""
        whole = {
            "interval": self.step,
            "rate_interval": self.rate_interval,
            "range": max(1, round(self.seconds)),
        }
        found = {f"__{name}": _duration(value) for name, value in whole.items()}
        found |= {f"__{name}_ms": str(round(value * 1000)) for name, value in whole.items()}
        found |= {"__range_s": str(round(whole["range"]))}
        return found | {"__from": _ms(self.start), "__to": _ms(self.end)}


@dataclass(frozen=True)
class Value:
    """What a variable has: one or several values, or all of them."""

    values: tuple[str, ...]
    many: bool = False
    """Whether it may have several values, or all."""
    literal: str | None = None
    """What stands for all, if the dashboard says so; it is filled in as it is."""

    def text(self, form: str | None) -> str:
        """As it is filled in."""
        if self.literal is not None:
            return self.literal
        if form in (None, "regex"):
            return self._expression()
        if form in SEPARATORS:
            return SEPARATORS[form].join(self.values)
        raise ToolError(f"a variable of form {form}: only regex, {', '.join(SEPARATORS)} are known")

    def _expression(self) -> str:
        if not self.many:
            return self.values[0].replace("\\", "\\\\").replace('"', '\\"')
        escaped = [_escape(value) for value in self.values]
        return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


SEPARATORS = {"pipe": "|", "csv": ",", "raw": ",", "text": " + "}


def fill(text: str, values: Mapping[str, Value], over: Range) -> str:
    """The text with every variable filled in; one that nobody knows is an error."""
    times = over.variables()

    def one(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[4]
        if name in times:
            return times[name]
        if name not in values:
            raise ToolError(f"no variable is called ${name}")
        return values[name].text(match[3] or match[5])

    return REFERENCE.sub(one, text)


def _escape(value: str) -> str:
    """For a regular expression within a string of PromQL: what RE2 knows is escaped twice."""
    return re.sub(r"[\\^$*+?.()|\[\]{}]", lambda match: "\\\\" + match[0], value).replace(
        '"', '\\"'
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds * 1000:.0f}ms"


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))
