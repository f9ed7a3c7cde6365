"""Reads the samples that k6 writes with `--out csv=-` while it runs."""

import csv
from collections import Counter
from collections.abc import Iterable

from loadtests.record import ALL
from loadtests.report.collect import Collector
from loadtests.report.progress import Progress

TIME_FORMAT = "unix_micro"
"""The value of K6_CSV_TIME_FORMAT for k6."""

KEPT = ("http_req_duration,", "checks,", "dropped_iterations,", "vus,", "metric_name,")
"""One line in seven; the others are not even split."""


def read(lines: Iterable[str], started: float, collector: Collector, progress: Progress) -> None:
    """Gathers every sample; `started` is the time from which the run's seconds count."""
    rows = csv.reader(line for line in lines if line.startswith(KEPT))
    reader = None
    for row in rows:
        if row[0] == "metric_name":
            reader = _Reader(row, started, collector, progress)
        else:
            reader.one(row)
    if reader is not None:
        reader.end()


class _Reader:
    """Samples of one run, in the columns of its first line."""

    def __init__(
        self, head: list[str], started: float, collector: Collector, progress: Progress
    ) -> None:
        self._started, self._collector, self._progress = started, collector, progress
        columns = {name: index for index, name in enumerate(head)}
        self._name, self._check = columns["name"], columns["check"]
        self._expected, self._group = columns["expected_response"], columns["group"]
        self._scenario, self._tags = columns["scenario"], columns["extra_tags"]
        self._part_of: dict[str, str] = {}
        self._dropped: Counter[str] = Counter()

    def one(self, row: list[str]) -> None:
        """One sample."""
        metric, value, scenario = row[0], float(row[2]), row[self._scenario]
        if metric == "vus":
            self._progress.users(int(value))
        # k6 calls setup() and teardown() outside of the load.
        elif row[self._group] in ("::setup", "::teardown"):
            return
        elif metric == "http_req_duration":
            self._request(row, value, scenario)
        elif metric == "checks":
            self._collector.check(_part(row[self._tags]), row[self._check], value != 0)
        else:
            self._dropped[scenario] += int(value)
            self._progress.dropped(int(value))

    def end(self) -> None:
        """What was not started has no tag of its part, only k6's name of the scenario."""
        for scenario, count in self._dropped.items():
            self._collector.dropped(self._part_of.get(scenario, ALL), count)

    def _request(self, row: list[str], ms: float, scenario: str) -> None:
        part = self._part_of[scenario] = _part(row[self._tags])
        failed = row[self._expected] == "false"
        ended = int(row[1]) / 1e6 - self._started
        sent = max(0.0, ended - ms / 1000)
        self._collector.request(part, row[self._name], sent, ms, failed, scenario)
        self._progress.request(ms, failed)


def _part(tags: str) -> str:
    for tag in tags.split("&"):
        if tag.startswith("part="):
            return tag.removeprefix("part=")
    return ALL
