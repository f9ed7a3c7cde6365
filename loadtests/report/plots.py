"""The charts of a run: which lines, on which axes."""

from loadtests.record import ALL, OverTime, Part, Run, Server
from loadtests.report.chart import COLOURS, Chart, Line, Points
from loadtests.report.scale import Axis, Linear, Log, Nines, Percent, slowest

ROUTES = 7
"""Routes with a line of their own; the tables have all."""

MS = "latency, ms"
SECONDS = "seconds since the start"


def percentiles(part: Part, base: Part | None, before: str = "") -> Chart:
    """The percentile curve of each route, and of all."""
    names = _slowest_routes(part)
    curves = {name: _curve(part, name) for name in names}
    lines = [Line(name, curve, index) for index, (name, curve) in enumerate(curves.items())]
    lines.append(Line(_all_of(part), _curve(part, part.whole), "ink", heavy=True))
    if base is not None and base.percentiles.get(base.whole):
        lines.append(
            Line("base run, all routes", _curve(base, base.whole), "base", heavy=True, dashed=True)
        )
    about = (
        "How long each share of the requests took at the most. The axis stretches the slow end: "
        "each nine more is ten times fewer requests."
    )
    if len(_routes(part)) > ROUTES:
        about += f" Of {len(_routes(part))} routes those {ROUTES} with the highest p99."
    return Chart(
        title=f"{before}Percentiles of the latency{_of(part)}",
        about=about,
        x=Nines.of(max(part.requests, base.requests if base else 0)),
        y=_latency_axis(lines),
        lines=lines,
    )


def parts_beside(run: Run, before: str = "") -> Chart:
    """The percentile curves of the parts of a run, over all routes of each."""
    lines = [
        Line(part.name, _curve(part, part.whole), index, dashed=index >= COLOURS)
        for index, part in enumerate(curved(run))
    ]
    return Chart(
        title=f"{before}Latency percentiles by part",
        about="How long each share of a part's requests took at the most.",
        x=Nines.of(max(part.requests for part in curved(run))),
        y=_latency_axis(lines),
        lines=lines,
    )


def parts_over_time(run: Run) -> Chart:
    """The p99 of the parts, on one axis of time."""
    lines = [
        Line(
            part.name,
            _over(part.over_time[ALL], part.over_time[ALL].p99_ms),
            index,
            dashed=index >= COLOURS,
        )
        for index, part in enumerate(timed(run))
    ]
    return Chart(
        title="p99 over time by part",
        about="Of each bin of time; a line ends where there were no requests.",
        x=_whole_time(run),
        y=Log.around("p99, ms", [y for line in lines for _, y in line.points]),
        lines=lines,
    )


def latency(part: Part) -> Chart:
    """Single requests by the time at which they were sent, with median and p99 of each bin."""
    over = part.over_time[ALL]
    dots = sorted((t, ms) for points in part.scatter.values() for t, ms in points)
    lines = [
        Line("highest", _over(over, over.max_ms), "muted", dashed=True),
        Line("p99", _over(over, over.p99_ms), "bad", heavy=True),
        Line("p50", _over(over, over.p50_ms), 0, heavy=True),
    ]
    values = [ms for _, ms in dots] + [y for line in lines for _, y in line.points if y]
    sample = (
        "single requests" if len(dots) == part.requests else f"{len(dots):,} requests, at random"
    )
    return Chart(
        title=f"Latency over time{_of(part)}",
        about=f"Each dot is a request, at the second in which it was sent. {_bins(over)}",
        x=_time_axis(over),
        y=Log.around(MS, values),
        lines=lines,
        dots=dots,
        dots_name=sample,
    )


def throughput(part: Part, server: Server | None) -> Chart:
    """Requests and failures of each second, compared with the server's count."""
    over = part.over_time[ALL]
    width = _width(over)
    sent = [(t, count / width) for t, count in _steps(over, over.requests)]
    failed = [(t, count / width) for t, count in _steps(over, over.failed)]
    lines = [Line("sent", sent, 0, steps=True, filled=True)]
    seen = [(t, v) for t, v in (server.requests_per_second if server else []) if _within(t, over)]
    if seen:
        lines.append(Line("counted by the servers", seen, 2))
    if part.failed:
        lines.append(Line("failed", failed, "bad", steps=True, filled=True))
    return Chart(
        title=f"Requests each second{_of(part)}",
        about="By the second in which they were sent; the first and the last second may be cut. "
        f"{_bins(over)}",
        x=_time_axis(over),
        y=Linear(
            "requests a second", 0, 1.08 * max([y for line in lines for _, y in line.points] + [1])
        ),
        lines=lines,
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
"""Phases with a line; accept is of new connections only, and of their clients: they may be silent at first."""


def sides(run: Run, server: Server, what: str) -> Chart:
    """A percentile at the client, at the gateway, and of each phase at the servers."""
    title, about = SIDES[what]
    # One line: most parts follow each other, and what they are is on the chart of the parts.
    client: Points = []
    for part in sorted(timed(run), key=lambda part: part.over_time[ALL].t[0]):
        over = part.over_time[ALL]
        client += [*_over(over, getattr(over, f"{what}_ms")), (over.t[-1] + _width(over), None)]
    lines = [Line(run.tool, client, "ink")]
    if what == "p99" and server.gateway_p99_ms:
        lines.append(Line("gateway", _pairs(server.gateway_p99_ms), 1, heavy=True))
    lines += [
        Line(f"server: {phase}", _pairs(server.phases[phase][f"{what}_ms"]), 2 + index, heavy=True)
        for index, phase in enumerate(SHOWN)
        if phase in server.phases
    ]
    axis = Log.around(f"{what}, ms", [y for line in lines for _, y in line.points])
    return Chart(title=title, about=about, x=_whole_time(run), y=axis, lines=lines)


def busy(run: Run, server: Server) -> Chart:
    """How busy the lanes were."""
    return Chart(
        title="Lanes busy",
        about="Share of the time in which a lane had work, the mean of all lanes. Near 100%, latency is queueing.",
        x=_whole_time(run),
        y=Percent("busy", 0, 1),
        lines=[Line("lanes busy", _pairs(server.lanes_busy), 4, heavy=True, filled=True)],
    )


def _slowest_routes(part: Part) -> list[str]:
    """Those that get a line; none where there is one route, which is all."""
    names = [name for name in _routes(part) if name in part.percentiles]
    by_p99 = sorted(names, key=lambda name: -part.routes[name].latency_ms.get("p99", 0.0))
    kept = set(by_p99[:ROUTES])
    return [name for name in names if name in kept]


def _routes(part: Part) -> list[str]:
    return [name for name in part.routes if name != ALL]


def _all_of(part: Part) -> str:
    return "all routes" if len(_routes(part)) > 1 else next(iter(_routes(part)), "all")


def _curve(part: Part, name: str) -> Points:
    """The slowest request is at 100%, which has no place on an axis of nines."""
    end = slowest(part.routes[name].requests) if name in part.routes else 100.0
    return [(min(percent, end), ms) for percent, ms in part.percentiles[name]]


def _latency_axis(lines: list[Line]) -> Axis:
    return Log.around(MS, [ms for line in lines for _, ms in line.points])


def _of(part: Part) -> str:
    return "" if part.name == ALL else f", {part.name}"


def _width(over: OverTime) -> float:
    return over.t[1] - over.t[0] if len(over.t) > 1 else 1.0


def _over(over: OverTime, values: list) -> Points:
    """Each at the middle of its bin."""
    half = _width(over) / 2
    return [(t + half, value) for t, value in zip(over.t, values, strict=True)]


def _steps(over: OverTime, values: list) -> Points:
    """Each over the whole of its bin."""
    points = list(zip(over.t, values, strict=True))
    return [*points, (over.t[-1] + _width(over), values[-1])] if points else []


def _bins(over: OverTime) -> str:
    width = _width(over)
    return f"Lines are of bins of {width:g} second{'s' if width != 1 else ''}."


def _within(t: float, over: OverTime) -> bool:
    return over.t[0] <= t <= over.t[-1] + _width(over)


def _time_axis(over: OverTime) -> Axis:
    return Linear(SECONDS, over.t[0], over.t[-1] + _width(over))


def curved(run: Run) -> list[Part]:
    """The parts that have a curve."""
    return [part for part in run.parts if part.percentiles.get(part.whole)]


def timed(run: Run) -> list[Part]:
    """The parts in which anything was asked."""
    return [part for part in run.parts if ALL in part.over_time]


def _whole_time(run: Run) -> Axis:
    ends = [part.over_time[ALL].t[-1] + 1 for part in timed(run)]
    return Linear(SECONDS, 0, max([run.seconds, *ends]))


def _pairs(series: list[list[float]]) -> Points:
    return [(t, value) for t, value in series]
