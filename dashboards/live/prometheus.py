"""Queries as Grafana sends them to Prometheus."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from stack.http import ask

STEP = 5
"""Seconds between two points of a range query, and the scrape interval that Grafana's data source is set to. It is
longer than the real one, so that the window of a rate has requests of rare routes as well."""

Sample = tuple[float, float]
"""A time and a value."""


@dataclass(frozen=True)
class Range:
    """The time that queries cover, in seconds since the epoch."""

    start: float
    end: float


@dataclass(frozen=True)
class Series:
    """One series of a result."""

    labels: dict[str, str]
    samples: tuple[Sample, ...]

    @property
    def numbers(self) -> list[float]:
        """Its values that are numbers."""
        return [value for _, value in self.samples if not math.isnan(value)]


@dataclass(frozen=True)
class Result:
    """The result of a query: an error, or series."""

    error: str = ""
    series: tuple[Series, ...] = ()


@dataclass(frozen=True)
class Prometheus:
    """The server at an address."""

    url: str

    def instant(self, expression: str, over: Range) -> Result:
        """The query at the end of the range."""
        return self._query("query", query=expression, time=over.end)

    def range(self, expression: str, over: Range) -> Result:
        """The query over the range, at multiples of the step, as Grafana aligns it."""
        start, end = (math.floor(time / STEP) * STEP for time in (over.start, over.end))
        return self._query("query_range", query=expression, start=start, end=end, step=STEP)

    def label_values(self, label: str, series: str, over: Range) -> list[str]:
        """The values that a label has on these series."""
        query = {"start": over.start, "end": over.end, "match[]": series}
        reply = ask(self.url, f"/api/v1/label/{label}/values?{urlencode(query)}")
        return reply.json().get("data") or []

    def broken_rules(self) -> dict[str, str]:
        """The rules whose last evaluation failed, and why."""
        groups = ask(self.url, "/api/v1/rules").json()["data"]["groups"]
        return {
            rule["name"]: rule.get("lastError", "")
            for group in groups
            for rule in group["rules"]
            if rule["health"] == "err"
        }

    def _query(self, path: str, **query: object) -> Result:
        reply = ask(self.url, f"/api/v1/{path}?{urlencode(query)}")
        if reply.status != 200:
            return Result(f"{reply.status}: {reply.body.decode(errors='replace').strip()}")
        data = reply.json()["data"]
        return Result(series=tuple(_series(data["resultType"], data["result"])))


def _series(kind: str, result: Sequence) -> list[Series]:
    if kind == "scalar":
        return [Series({}, (_sample(result),))]
    return [
        Series(each["metric"], tuple(map(_sample, each.get("values") or [each["value"]])))
        for each in result
    ]


def _sample(pair: Sequence) -> Sample:
    return float(pair[0]), float(pair[1])
