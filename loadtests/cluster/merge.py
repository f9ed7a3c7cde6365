"""Merges the counts of several runners into the record of one run.

Counts are added, minimum and maximum cover all runners, and the mean is weighted by requests. The
runners' quantiles do not determine the quantile of all requests, which is not their mean either.
With equal counts, a p99 of 10 ms and a p99 of 100 ms can result in any value between the two. A
record therefore contains the worst runner's quantile, which is never too good, with the best
runner's next to it.
"""

from collections.abc import Iterable
from datetime import datetime

from loadtests import k6
from loadtests.cluster.release import Installed, Wanted
from loadtests.cluster.runners import Ended
from loadtests.record import ALL, Checks, Figure, Part, Route, Run, Target
from stack import machine
from tools.errors import ToolError

THRESHOLDS = 99
"""k6's exit status for a failed threshold."""

HONEST = (
    "Quantiles are those of the worst runner. Quantiles of several runners cannot be averaged; those of all requests "
    "lie between the worst runner's and the best one's."
)

QUANTILES = ("p50", "p99")
"""Quantiles with the best runner's value in the record."""


def record_of(
    wanted: Wanted,
    installed: Installed,
    ended: Ended,
    started: datetime,
    load: tuple[float, float, float],
) -> Run:
    """Raises an error if no runner has counted anything."""
    found = {each.index: data for each in ended.runners if (data := each.summary())}
    if not any(data["metrics"].get("http_reqs") for data in found.values()):
        raise ToolError(f"no runner has sent a request. {'. '.join(ended.reasons())}")
    failed = [
        f"runner {index}: {threshold}"
        for index, data in found.items()
        for threshold in k6.failed_thresholds(data)
    ]
    merged = parts([k6.parts(data) for data in found.values()])
    return Run(
        name=wanted.name,
        tool="k6",
        tool_version=installed.k6_version,
        passed=ended.complete and len(found) == wanted.runners,
        exit_code=exit_code(ended, len(found), wanted.runners),
        failed_thresholds=failed,
        started=started.isoformat(timespec="seconds"),
        # Excludes the time for pulling images and waiting for all runners.
        seconds=round(max(part.seconds for part in merged), 1),
        target=Target(installed.target, "cluster", installed.replicas),
        settings={
            **wanted.settings,
            "runners": wanted.runners,
            "nodes": sorted({each.node for each in ended.runners}),
            "testid": wanted.testid,
        },
        machine=machine.describe(),
        load_average_before=list(load),
        parts=merged,
        figures=_figures_of(found),
        notes=[
            HONEST,
            *dict.fromkeys(note for data in found.values() for note in data.get("notes", [])),
        ],
    )


def exit_code(ended: Ended, summaries: int, wanted: int) -> int:
    """0 if all runners passed, 99 if only thresholds failed, otherwise 1."""
    if ended.complete and summaries == wanted:
        return 0
    codes = {each.exit_code for each in ended.runners} - {0}
    return THRESHOLDS if codes == {THRESHOLDS} and summaries == wanted else 1


def parts(of_runners: Iterable[list[Part]]) -> list[Part]:
    by_name: dict[str, list[Part]] = {}
    for one in of_runners:
        for part in one:
            by_name.setdefault(part.name, []).append(part)
    return [_part(name, same) for name, same in by_name.items()]


def _part(name: str, same: list[Part]) -> Part:
    seconds = max(part.seconds for part in same)
    requests = sum(part.requests for part in same)
    return Part(
        name=name,
        seconds=seconds,
        requests=requests,
        failed=sum(part.failed for part in same),
        requests_per_second=round(requests / seconds, 3) if seconds else 0.0,
        dropped=sum(part.dropped for part in same),
        checks=_checks([part.checks for part in same if part.checks]),
        routes=_routes([part.routes for part in same]),
        figures=_figures(same),
    )


def _checks(same: list[Checks]) -> Checks | None:
    if not same:
        return None
    return Checks(
        passed=sum(each.passed for each in same),
        failed=sum(each.failed for each in same),
        failed_names=sorted({name for each in same for name in each.failed_names}),
    )


def _routes(same: list[dict[str, Route]]) -> dict[str, Route]:
    names = dict.fromkeys(name for routes in same for name in routes)
    return {name: _route([routes[name] for routes in same if name in routes]) for name in names}


def _route(same: list[Route]) -> Route:
    requests = sum(route.requests for route in same)
    asked = [route for route in same if route.requests]
    latency: dict[str, float] = {}
    for key in dict.fromkeys(key for route in asked for key in route.latency_ms):
        values = [
            (route.latency_ms[key], route.requests) for route in asked if key in route.latency_ms
        ]
        if key == "min":
            latency[key] = min(value for value, _ in values)
        elif key == "mean":
            latency[key] = sum(value * count for value, count in values) / sum(
                count for _, count in values
            )
        else:
            latency[key] = max(value for value, _ in values)
    return Route(requests, sum(route.failed for route in same), latency)


def _figures(same: list[Part]) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    if len(same) > 1:
        for key in QUANTILES:
            values = [
                part.routes[ALL].latency_ms[key]
                for part in same
                if ALL in part.routes and key in part.routes[ALL].latency_ms
            ]
            if values:
                figures[f"{key} of the best runner"] = Figure(min(values), "ms")
    return figures


def _figures_of(found: dict[int, dict]) -> dict[str, Figure]:
    """Figures that scenarios computed, such as the knee: each runner's figure applies to its share
    of the load.
    """
    return {
        f"{name} of runner {index}" + ("" if place == ALL else f", {place}"): Figure(**figure)
        for index, data in found.items()
        for place, figures in data.get("figures", {}).items()
        for name, figure in figures.items()
        if figure["value"] is not None
    }
