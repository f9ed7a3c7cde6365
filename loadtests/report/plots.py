"""A run's charts: lines and axes."""

from dataclasses import dataclass

from loadtests.bench.experiment.plots import Panel, Series
from loadtests.record import ALL, OverTime, Part, Run, Server
from loadtests.report.tables import Ratio

ROUTES = 7
"""Maximum routes with their own line; the tables contain all routes."""

MS = "latency, ms"
SECONDS = "seconds since the start"
PERCENT = "percent of the requests that were as fast or faster"

BAD, INK, MUTED = "#c2255c", "#15202b", "#98a2ad"
HEAVY = {"linewidth": 2.2}
STEPS = {"drawstyle": "steps-post"}
COLOURS = 8
"""Number of distinct colours."""

Points = list[tuple[float, float | None]]


@dataclass(frozen=True)
class Chart:
    title: str
    about: str
    panel: Panel


def percentiles(part: Part, base: Part | None, before: str = "") -> Chart:
    lines = [_line(name, _curve(part, name)) for name in _slowest_routes(part)]
    lines.append(_line(_all_of(part), _curve(part, part.whole), color=INK, **HEAVY))
    if base is not None and base.percentiles.get(base.whole):
        look = {"color": "#8a6d3b", "linestyle": "--", **HEAVY}
        lines.append(_line("base run, all routes", _curve(base, base.whole), **look))
    about = (
        "How long each share of the requests took at the most. The axis stretches the slow end: "
        "each nine more is ten times fewer requests."
    )
    if len(_routes(part)) > ROUTES:
        about += f" Of {len(_routes(part))} routes those {ROUTES} with the highest p99."
    requests = max(part.requests, base.requests if base else 0, 1)
    return Chart(f"{before}Percentiles of the latency{_of(part)}", about, _nines(lines, requests))


def parts_beside(run: Run, before: str = "") -> Chart:
    lines = [
        _line(part.name, _curve(part, part.whole), **_repeated(index))
        for index, part in enumerate(curved(run))
    ]
    requests = max(1, *(part.requests for part in curved(run)))
    about = "Latency quantiles of each part."
    return Chart(f"{before}Latency percentiles by part", about, _nines(lines, requests))


def parts_over_time(run: Run) -> Chart:
    """The p99 of the parts on one time axis."""
    lines = [
        _line(part.name, _over(over, over.p99_ms), **_repeated(index))
        for index, part in enumerate(timed(run))
        for over in [part.over_time[ALL]]
    ]
    about = "Per time bin; gaps are bins without requests."
    return Chart("p99 over time by part", about, _timed(lines, "p99, ms", log="y"))


def latency(part: Part, limit: float | None = None) -> Chart:
    """Single requests by send time, with the median and p99 of each bin."""
    over = part.over_time[ALL]
    dots = sorted((t, ms) for points in part.scatter.values() for t, ms in points)
    sample = (
        "single requests" if len(dots) == part.requests else f"{len(dots):,} requests, at random"
    )
    lines = [
        Series(sample, [(t, [ms]) for t, ms in dots], dots=True),
        _line("highest", _over(over, over.max_ms), color=MUTED, linestyle="--"),
        _line("p99", _over(over, over.p99_ms), color=BAD, **HEAVY),
        _line("p50", _over(over, over.p50_ms), **HEAVY),
    ]
    panel = _timed(lines, MS, log="y")
    if limit is not None:
        panel.limits["threshold of the p99"] = limit
    return Chart(
        f"Latency over time{_of(part)}",
        f"Each dot is a request, at the second in which it was sent. {_bins(over)}",
        panel,
    )


def throughput(part: Part, server: Server | None) -> Chart:
    over = part.over_time[ALL]
    lines = [_line("sent", _steps(over, over.requests), **STEPS)]
    seen = [(t, v) for t, v in (server.requests_per_second if server else []) if _within(t, over)]
    if seen:
        lines.append(_line("counted by the servers", seen))
    if part.failed:
        lines.append(_line("failed", _steps(over, over.failed), color=BAD, **STEPS))
    return Chart(
        f"Requests each second{_of(part)}",
        "By the second in which they were sent; the first and the last second may be cut. "
        f"{_bins(over)}",
        _timed(lines, "requests a second", zero=True),
    )


SIDES = {
    "p99": (
        "Who is slow? p99 at client, gateway and servers",
        "The client's is of each bin, the others of histograms over a few scrapes, no finer than their buckets. "
        + "Where two lines part, the time is lost between the two.",
    ),
    "p50": (
        "The usual request: medians at client and servers",
        "Where a request spends its time when nothing is in its way.",
    ),
}

SHOWN = ("queue", "handler", "write")
"""Phases with a line. The accept phase exists only for new connections, and their clients may be
silent at first.
"""


def sides(run: Run, server: Server, what: str) -> Chart:
    """A percentile at the client, at the gateway, and of each phase at the servers."""
    title, about = SIDES[what]
    # One line is enough: most parts run one after another, and the parts chart names them.
    client: Points = []
    for part in sorted(timed(run), key=lambda part: part.over_time[ALL].t[0]):
        over = part.over_time[ALL]
        client += [*_over(over, getattr(over, f"{what}_ms")), (over.t[-1] + _width(over), None)]
    lines = [_line(run.tool, client, color=INK)]
    if what == "p99" and server.gateway_p99_ms:
        lines.append(_line("gateway", _pairs(server.gateway_p99_ms), **HEAVY))
    lines += [
        _line(f"server: {phase}", _pairs(server.phases[phase][f"{what}_ms"]), **HEAVY)
        for phase in SHOWN
        if phase in server.phases
    ]
    return Chart(title, about, _timed(lines, f"{what}, ms", log="y"))


def busy(server: Server) -> Chart:
    percent = [(t, 100 * share) for t, share in server.lanes_busy]
    return Chart(
        "Lanes busy",
        "Share of the time in which a lane had work, the mean of all lanes. Near 100%, latency is queueing.",
        _timed([_line("lanes busy", percent, **HEAVY)], "busy, %", zero=True),
    )


def ratios(found: list[Ratio]) -> Chart:
    series = [
        Series(what, [(one.route, [one.ratio]) for one in found if one.what == what])
        for what in ("p50", "p99")
    ]
    panel = Panel(series, x="× the base run", log="x", limits={"as fast": 1.0})
    title = "Ratio of p50 and p99 to the base run, by route"
    return Chart(title, "Right of 1 the newer run is slower.", panel)


def _line(name: str, points: Points, **look: object) -> Series:
    return Series(name, [(x, [] if y is None else [y]) for x, y in points], look=look)


def _nines(lines: list[Series], requests: int) -> Panel:
    return Panel(lines, x=PERCENT, y=MS, kind="lines", log="y", nines=requests)


def _timed(lines: list[Series], y: str, log: str = "", *, zero: bool = False) -> Panel:
    return Panel(lines, x=SECONDS, y=y, kind="lines", log=log, zero=zero)


def _repeated(index: int) -> dict[str, str]:
    return {"linestyle": "--"} if index >= COLOURS else {}


def _slowest_routes(part: Part) -> list[str]:
    """Routes with their own line; none if there is only one route, which equals all requests."""
    names = [name for name in _routes(part) if name in part.percentiles]
    by_p99 = sorted(names, key=lambda name: -part.routes[name].latency_ms.get("p99", 0.0))
    kept = set(by_p99[:ROUTES])
    return [name for name in names if name in kept]


def _routes(part: Part) -> list[str]:
    return [name for name in part.routes if name != ALL]


def _all_of(part: Part) -> str:
    return "all routes" if len(_routes(part)) > 1 else next(iter(_routes(part)), "all")


def _curve(part: Part, name: str) -> Points:
    """The slowest request is at 100%, which an axis of nines cannot show."""
    requests = part.routes[name].requests if name in part.routes else part.requests
    end = 100 * (1 - 0.5 / max(1, requests))
    return [(min(percent, end), ms) for percent, ms in part.percentiles[name]]


def _of(part: Part) -> str:
    return "" if part.name == ALL else f", {part.name}"


def _width(over: OverTime) -> float:
    return over.t[1] - over.t[0] if len(over.t) > 1 else 1.0


def _over(over: OverTime, values: list) -> Points:
    half = _width(over) / 2
    return [(t + half, value) for t, value in zip(over.t, values, strict=True)]


def _steps(over: OverTime, counts: list) -> Points:
    width = _width(over)
    points = [(t, count / width) for t, count in zip(over.t, counts, strict=True)]
    return [*points, (over.t[-1] + width, points[-1][1])] if points else []


def _bins(over: OverTime) -> str:
    width = _width(over)
    return f"Lines are of bins of {width:g} second{'s' if width != 1 else ''}."


def _within(t: float, over: OverTime) -> bool:
    return over.t[0] <= t <= over.t[-1] + _width(over)


def curved(run: Run) -> list[Part]:
    return [part for part in run.parts if part.percentiles.get(part.whole)]


def timed(run: Run) -> list[Part]:
    return [part for part in run.parts if ALL in part.over_time]


def _pairs(series: list[list[float]]) -> Points:
    return [(t, value) for t, value in series]
