"""Queries as Grafana sends them to Prometheus."""

import http.client
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

TIMEOUT = 30.0


@dataclass(frozen=True)
class Reply:
    """What was answered."""

    status: int
    body: bytes

    def json(self) -> object:
        """The body as JSON."""
        return json.loads(self.body)


def ask(
    url: str, method: str = "GET", body: object = None, *, timeout: float = TIMEOUT, **query: object
) -> Reply:
    """One request; what is given as `body` is sent as JSON, the rest as the URL's query."""
    at = urlsplit(url)
    path = (at.path or "/") + (f"?{urlencode(query, doseq=True)}" if query else "")
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=timeout)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text)
        reply = connection.getresponse()
        return Reply(reply.status, reply.read())
    finally:
        connection.close()


def well(url: str) -> bool:
    """Whether it is answered 200."""
    try:
        return ask(url, timeout=2).status == 200
    except (OSError, http.client.HTTPException):
        return False


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
        url = f"{self.url}/api/v1/label/{label}/values"
        reply = ask(url, start=over.start, end=over.end, **{"match[]": series})
        return reply.json().get("data") or []

    def broken_rules(self) -> dict[str, str]:
        """The rules whose last evaluation failed, and why."""
        groups = ask(f"{self.url}/api/v1/rules").json()["data"]["groups"]
        return {
            rule["name"]: rule.get("lastError", "")
            for group in groups
            for rule in group["rules"]
            if rule["health"] == "err"
        }

    def _query(self, path: str, **query: object) -> Result:
        reply = ask(f"{self.url}/api/v1/{path}", **query)
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
