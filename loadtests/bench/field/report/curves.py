"""Percentile curves on an axis of nines: a panel for each family, with the floor and Corelane in all."""

from statistics import median

from loadtests.bench.field.report import look
from loadtests.bench.field.report.measures import Sample
from loadtests.bench.field.report.picture import Drawn, charted
from loadtests.bench.field.report.rows import FLOOR, US, Taken
from loadtests.report.chart import Chart, Line, Points
from loadtests.report.scale import Log, Nines, slowest

HEIGHT = 250
PUBLISHED = "published, on another machine"

CROWD = 4
"""More of a family than this and no other family joins its panel."""


def panels(
    curves: dict[str, Points], families: dict[str, str], requests: int, width: int
) -> list[Drawn]:
    """All panels have the same axes."""
    ends = (ms for points in curves.values() for _, ms in points)
    x, y = Nines.of(requests), Log.around("latency, ms", ends)
    common = [name for name in (FLOOR, US) if name in curves]
    found = []
    for title, names in _groups(curves, families).items():
        colours = look.lines([*common, *names])
        lines = [
            Line(
                name,
                curves[name],
                colours[name],
                dashed=name == FLOOR or (look.ours(name) and name != US) or name not in families,
                heavy=name == US,
            )
            for name in [*names, *common]
        ]
        found.append(charted(Chart(title, "", x, y, lines, width=width, height=HEIGHT)))
    return found or {"": []}


def opened(taken: Taken) -> tuple[dict[str, Points], int]:
    """The curves of an open loop, and the most requests that one of them has."""
    return of({name: [one.get("open") or {} for one in found] for name, found in taken.items()})


def of(taken: Taken) -> tuple[dict[str, Points], int]:
    """The curves of samples that have percentiles themselves."""
    curved = {
        name: [one for one in found if one.get("percentiles")] for name, found in taken.items()
    }
    taken = {name: found for name, found in curved.items() if found}
    most = max((one["requests"] for found in taken.values() for one in found), default=1)
    return {name: _curve(found) for name, found in taken.items()}, most


def _curve(samples: list[Sample]) -> Points:
    """At each percent the median of the rounds; the slowest request is drawn where half of it is beyond."""
    by_percent: dict[float, list[float]] = {}
    for sample in samples:
        for percent, ms in sample["percentiles"]:
            by_percent.setdefault(percent, []).append(ms)
    end = slowest(min(sample["requests"] for sample in samples))
    return [
        (min(percent, end), median(values))
        for percent, values in sorted(by_percent.items())
        if len(values) == len(samples)
    ]


def _groups(curves: dict[str, Points], families: dict[str, str]) -> dict[str, list[str]]:
    """Families with their names; small ones share a panel."""
    by_family: dict[str, list[str]] = {}
    for name in curves:
        if name not in (FLOOR, US):
            by_family.setdefault(families.get(name, PUBLISHED), []).append(name)
    found: dict[str, list[str]] = {}
    for family, names in by_family.items():
        last = next(reversed(found), None)
        if family != PUBLISHED and last and len(found[last]) + len(names) <= CROWD:
            found[f"{last}, {family}"] = [*found.pop(last), *names]
        else:
            found[family] = names
    return found or {"": []}
