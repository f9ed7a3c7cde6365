"""Collects the requests of a run, one by one, into the parts of its record."""

import csv
import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial
from math import ceil

from loadtests.record import ALL, Checks, OverTime, Part, Route, quantiles
from loadtests.report.progress import Progress

STATISTICS = {"min": 0, "p50": 50, "p90": 90, "p95": 95, "p99": 99, "p99.9": 99.9, "max": 100}
SCATTERED = 3000
BINS = 600

LISTED = 20

Series = defaultdict[int, array]
"""Latencies of one route, by the second in which requests were sent."""


def percents(count: int) -> list[float]:
    """Percentiles to plot for this many requests: equally dense in each nine."""
    found = [2.5 * step for step in range(36)]
    decade = 10.0
    while decade * count / 100 >= 1:
        found += [100 - decade * (1 - 0.05 * step) for step in range(18)]
        decade /= 10
    # Rounding errors from the division by ten must not lose a request.
    seen = [percent for percent in found if (100 - percent) * count >= 100 - 1e-6]
    return [round(percent, 8) for percent in seen] + [100.0]


class Collector:
    """All data about a run's requests. Quantiles cannot be computed from other quantiles, so it
    keeps each latency, in 8 bytes.
    """

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._parts: dict[str, _Part] = {}

    def request(
        self, part: str, route: str, t: float, ms: float, failed: bool, span: str = ""
    ) -> None:
        """Adds one request, sent `t` seconds after the start of the run.

        If a part consists of several spans with other parts between them, its duration is their
        sum.
        """
        self._part(part).request(route, t, ms, failed, span, self._random)

    def check(self, part: str, name: str, passed: bool) -> None:
        checks = self._part(part).checks
        checks[name, passed] += 1

    def dropped(self, part: str, count: int) -> None:
        self._part(part).dropped += count

    def parts(self) -> list[Part]:
        asked = [part for part in self._parts.values() if part.routes or part.dropped]
        return [part.finished() for part in asked]

    def _part(self, name: str) -> "_Part":
        if name not in self._parts:
            self._parts[name] = _Part(name)
        return self._parts[name]


class _Part:
    def __init__(self, name: str) -> None:
        self.name = name
        self.routes: dict[str, Series] = defaultdict(partial(defaultdict, partial(array, "d")))
        self.checks: Counter[tuple[str, bool]] = Counter()
        self.dropped = 0
        self._failed: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._total: Counter[str] = Counter()
        self._spans: dict[str, tuple[float, float]] = {}
        self._sample: list[tuple[str, float, float]] = []
        self._count = 0

    def request(
        self, route: str, t: float, ms: float, failed: bool, span: str, chance: random.Random
    ) -> None:
        second = int(t)
        self.routes[route][second].append(ms)
        self._total[route] += ms
        if failed:
            self._failed[route][second] += 1
        ended = t + ms / 1000
        first, last = self._spans.get(span, (t, ended))
        self._spans[span] = (min(first, t), max(last, ended))
        # Vitter's algorithm R: every request is equally likely to be in the sample.
        self._count += 1
        if len(self._sample) < SCATTERED:
            self._sample.append((route, t, ms))
        elif (place := int(chance.random() * self._count)) < SCATTERED:
            self._sample[place] = (route, t, ms)

    def finished(self) -> Part:
        seconds = _covered(self._spans.values())
        failed = sum(counts.total() for counts in self._failed.values())
        named = {name: [name] for name in sorted(self.routes)}
        # A run of one route has only that route's curve.
        groups = {ALL: list(named), **named} if len(named) > 1 else {ALL: list(named)}
        part = Part(
            name=self.name,
            seconds=round(seconds, 3),
            requests=self._count,
            failed=failed,
            requests_per_second=round(self._count / seconds, 3) if seconds else 0.0,
            dropped=self.dropped,
            checks=self._checked(),
            scatter=self._scattered(),
        )
        for name, members in groups.items() if self._count else ():
            self._summarise(part, name, members)
        if len(named) == 1:
            (only,) = named
            part.routes[only] = part.routes[ALL]
        return part

    def _summarise(self, part: Part, name: str, members: list[str]) -> None:
        values = sorted(v for m in members for piece in self.routes[m].values() for v in piece)
        count = len(values)
        curve = percents(count)
        wanted = sorted({*curve, *STATISTICS.values()})
        found = dict(zip(wanted, quantiles(values, wanted), strict=True))
        latency = {key: round(found[percent], 6) for key, percent in STATISTICS.items()}
        latency["mean"] = round(sum(self._total[member] for member in members) / count, 6)
        failed = sum(self._failed[member].total() for member in members if member in self._failed)
        part.routes[name] = Route(count, failed, latency)
        part.percentiles[name] = [[percent, round(found[percent], 4)] for percent in curve]
        part.over_time[name] = self._over_time(members)

    def _over_time(self, members: list[str]) -> OverTime:
        """Returns bins of a second or more, from the part's first request to its last."""
        asked = [second for route in self.routes.values() for second in route]
        first, last = min(asked), max(asked)
        width = ceil((last - first + 1) / BINS)
        over = OverTime()
        for start in range(first, last + 1, width):
            seconds = range(start, start + width)
            values = sorted(v for m in members for s in seconds for v in self.routes[m].get(s, ()))
            over.t.append(start)
            over.requests.append(len(values))
            over.failed.append(
                sum(self._failed[m][s] for m in members if m in self._failed for s in seconds)
            )
            three = quantiles(values, (50, 99, 100)) if values else [None] * 3
            for found, kept in zip(three, (over.p50_ms, over.p99_ms, over.max_ms), strict=True):
                kept.append(None if found is None else round(found, 4))
        return over

    def _scattered(self) -> dict[str, list[list[float]]]:
        points: dict[str, list[list[float]]] = {}
        for route, t, ms in sorted(self._sample):
            points.setdefault(route, []).append([round(t, 3), round(ms, 4)])
        return points

    def _checked(self) -> Checks | None:
        if not self.checks:
            return None
        failed = {name: count for (name, passed), count in self.checks.items() if not passed}
        names = [
            f"{name} ({count} of {count + self.checks[name, True]})"
            for name, count in sorted(failed.items())
        ]
        total = self.checks.total()
        return Checks(total - sum(failed.values()), sum(failed.values()), names[:LISTED])


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Combined duration of the spans; overlaps are counted once."""
    total, reached = 0.0, 0.0
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, reached))
        reached = max(reached, last)
    return total


TIME_FORMAT = "unix_micro"
"""Value of K6_CSV_TIME_FORMAT for k6."""

KEPT = ("http_req_duration,", "checks,", "dropped_iterations,", "vus,", "metric_name,")
"""Lines with samples to keep, about one in seven. Other lines are not even split."""


def read(lines: Iterable[str], started: float, collector: Collector, progress: Progress) -> None:
    """`started` is the time from which the run's seconds are counted."""
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
        metric, value, scenario = row[0], float(row[2]), row[self._scenario]
        if metric == "vus":
            self._progress.users(int(value))
        # k6 calls setup() and teardown() outside the load.
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
        """Counts iterations that did not start. They have no part tag, only k6's scenario name."""
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
