"""Prometheus and Alertmanager: their command lines, and queries as Grafana sends them."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from stack import HOST, eventually
from stack.http import ask, replies
from stack.ports import free_ports
from stack.process import running
from tools.resolve import tool

STEP = 5
"""Seconds between two points of a range query, and the scrape interval in Grafana's data source.
Longer than the real interval, so that a rate's window also contains requests for rare routes.
"""

Sample = tuple[float, float]


@dataclass(frozen=True)
class Range:
    """Seconds since the epoch."""

    start: float
    end: float


@dataclass(frozen=True)
class Series:
    labels: dict[str, str]
    samples: tuple[Sample, ...]

    @property
    def numbers(self) -> list[float]:
        return [value for _, value in self.samples if not math.isnan(value)]


@dataclass(frozen=True)
class Result:
    error: str = ""
    series: tuple[Series, ...] = ()


@dataclass(frozen=True)
class Prometheus:
    url: str

    def instant(self, expression: str, over: Range) -> Result:
        return self._query("query", query=expression, time=over.end)

    def range(self, expression: str, over: Range) -> Result:
        """Runs a range query that is aligned to multiples of the step, as in Grafana."""
        start, end = (math.floor(time / STEP) * STEP for time in (over.start, over.end))
        return self._query("query_range", query=expression, start=start, end=end, step=STEP)

    def label_values(self, label: str, series: str, over: Range) -> list[str]:
        query = {"start": over.start, "end": over.end, "match[]": series}
        reply = ask(self.url, f"/api/v1/label/{label}/values?{urlencode(query)}")
        return reply.json().get("data") or []

    def broken_rules(self) -> dict[str, str]:
        """Rules that failed at their last evaluation, with the error."""
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


def command(program: Path, folder: Path, port: int, *flags: str) -> list[str]:
    """The command line of a Prometheus with its files in a folder."""
    return [
        str(program),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus-data'}",
        f"--web.listen-address={HOST}:{port}",
        "--log.level=warn",
        *flags,
    ]


def alertmanager(folder: Path, port: int, configuration: Path | None = None) -> list[str]:
    """The command line of an Alertmanager with its files in a folder."""
    return [
        str(tool("alertmanager")),
        f"--config.file={configuration or folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager-data'}",
        f"--web.listen-address={HOST}:{port}",
        # Disables clustering with other Alertmanagers.
        "--cluster.listen-address=",
        "--log.level=warn",
    ]


def lately() -> Range:
    return Range(time.time() - 60, time.time())


@contextmanager
def prometheus(folder: Path, job: dict, *flags: str, **more: object) -> Iterator[Prometheus]:
    """Without targets, the job scrapes Prometheus itself; `more` contains additional sections."""
    port = free_ports()
    own = {"targets": [f"{HOST}:{port}"], "labels": {"pod": "one"}}
    found = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
        "scrape_configs": [{"job_name": "prometheus", "static_configs": [own], **job}],
        **more,
    }
    # JSON is YAML (YAML 1.2, section 1.3).
    (folder / "prometheus.yml").write_text(json.dumps(found))
    made = Prometheus(f"http://{HOST}:{port}")
    argv = command(tool("prometheus"), folder, port, *flags)
    with running("prometheus", argv, folder, lambda: replies(made.url, "/-/ready")):
        # A range ends with its last whole step, so it sees the first scrape a little later.
        eventually(lambda: made.range("up == 1", lately()).series, "a scrape")
        yield made
