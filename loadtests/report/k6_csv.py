"""Reads the samples that k6 writes with `--out csv=-` while it runs."""

import csv
from collections.abc import Iterable

from loadtests.record import ALL
from loadtests.report.collect import Collector
from loadtests.report.progress import Progress

TIME_FORMAT = "unix_micro"
"""What k6 must be told by K6_CSV_TIME_FORMAT."""

KEPT = ("http_req_duration,", "checks,", "dropped_iterations,", "vus,", "metric_name,")
"""One line in seven; the others are not even split."""


def read(lines: Iterable[str], started: float, collector: Collector, progress: Progress) -> None:
    """Gathers every sample; `started` is the time from which the run's seconds count."""
    columns: dict[str, int] = {}
    for row in csv.reader(line for line in lines if line.startswith(KEPT)):
        if row[0] == "metric_name":
            columns = {name: index for index, name in enumerate(row)}
            continue
        _one(row, columns, started, collector, progress)


def _one(
    row: list[str],
    columns: dict[str, int],
    started: float,
    collector: Collector,
    progress: Progress,
) -> None:
    metric, value = row[0], float(row[2])
    if metric == "vus":
        progress.users(int(value))
        return
    # k6 calls setup() and teardown() outside of the load.
    group = row[columns["group"]] if "group" in columns else ""
    if group in ("::setup", "::teardown"):
        return
    part = _part(row[columns["extra_tags"]])
    if metric == "http_req_duration":
        failed = row[columns["expected_response"]] == "false"
        ended = int(row[1]) / 1e6 - started
        route = row[columns["name"]]
        collector.request(part, route, max(0.0, ended - value / 1000), value, failed)
        progress.request(value, failed)
    elif metric == "checks":
        collector.check(part, row[columns["check"]], value != 0)
    else:
        collector.dropped(part, int(value))
        progress.dropped(int(value))


def _part(tags: str) -> str:
    for tag in tags.split("&"):
        if tag.startswith("part="):
            return tag.removeprefix("part=")
    return ALL
