"""The tables of a run, as rows of text for the page and for Markdown."""

import re
from dataclasses import dataclass
from datetime import datetime

from loadtests.record import ALL, Figure, Part, Route, Run

LATENCIES = ("p50", "p90", "p95", "p99", "p99.9", "max")


def number(value: float) -> str:
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"


@dataclass(frozen=True)
class Table:
    """The first column contains names, and the other columns contain figures."""

    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Ratio:
    """A route's value in two runs; above 1, the newer run's value is higher."""

    route: str
    what: str
    base: float
    now: float

    @property
    def ratio(self) -> float:
        return self.now / self.base


def thresholds(run: Run) -> Table:
    """k6's thresholds with the values that it judged, failed ones first."""
    rows = [
        [name, expression, _measured(metric, expression), "holds" if result["ok"] else "FAILED"]
        for name, metric in (run.k6 or {}).get("metrics", {}).items()
        for expression, result in metric.get("thresholds", {}).items()
        if expression not in ALWAYS
    ]
    rows.sort(key=lambda row: (row[-1] == "holds", row))
    return Table(["metric", "threshold", "measured", "result"], rows)


ALWAYS = ("max>=0",)
"""Thresholds that only make k6 keep a metric (lib/options.js)."""


def p99_limit(run: Run, part: Part) -> float | None:
    """The threshold of a part's p99 in milliseconds, if any."""
    metrics = (run.k6 or {}).get("metrics", {})
    for name in (f"http_req_duration{{part:{part.name}}}", "http_req_duration"):
        for expression in metrics.get(name, {}).get("thresholds", {}):
            if found := re.fullmatch(r"p\(99\)<=?([0-9.]+)", expression):
                return float(found[1])
    return None


def _measured(metric: dict, expression: str) -> str:
    """Value of the statistic at the start of an expression such as `p(99)<250`."""
    statistic = re.split("[<>=!]", expression)[0].strip()
    value = metric["values"].get(statistic)
    if value is None:
        return "–"
    if statistic == "rate":
        return f"{100 * value:.4g}%"
    return f"{number(value)} ms" if metric.get("contains") == "time" else number(value)


def routes(part: Part) -> Table:
    rest = [name for name in part.routes if name != ALL]
    names = rest if len(rest) == 1 else [ALL, *rest]
    head = ["route", "requests", "failed", *(f"{name} ms" for name in LATENCIES)]
    return Table(head, [_route(name, part.routes[name]) for name in names if name in part.routes])


def _route(name: str, route: Route) -> list[str]:
    latencies = [route.latency_ms.get(key) for key in LATENCIES]
    return [
        name,
        f"{route.requests:,}",
        f"{route.failed:,}",
        *("–" if value is None else number(value) for value in latencies),
    ]


def summary(part: Part) -> list[tuple[str, str]]:
    every = part.routes[part.whole].latency_ms if part.whole else {}
    found = [
        ("requests", f"{part.requests:,}"),
        ("requests a second", number(part.requests_per_second)),
        ("failed", f"{part.failed:,}"),
    ]
    found += [(f"{key}, ms", number(every[key])) for key in ("p50", "p99", "max") if key in every]
    if part.dropped:
        found.append(("not started", f"{part.dropped:,}"))
    found += [(name.replace("_", " "), figure(one)) for name, one in part.figures.items()]
    return found


def figure(one: Figure) -> str:
    return f"{number(one.value)} {one.unit}".strip()


def server(run: Run) -> Table:
    rows = []
    for part in run.parts:
        every = part.routes[part.whole].latency_ms if part.whole else {}
        name = run.tool if part.name == ALL else f"{run.tool}, {part.name}"
        rows.append(
            [name, *(number(every[key]) if key in every else "–" for key in ("p50", "p99"))]
        )
    whole = run.server.whole_run if run.server else {}
    for name, found in sorted(whole.items(), key=lambda item: item[0] != "gateway"):
        where = name if name == "gateway" else f"server: {name}"
        rows.append([where, *(_quantile(found, key) for key in ("p50_ms", "p99_ms"))])
    return Table(["seen by", "p50 ms", "p99 ms"], rows)


def _quantile(found: dict[str, float], key: str) -> str:
    """Within the first bucket, interpolation would produce meaningless digits."""
    value, finest = found.get(key), found.get("finest_ms", 0)
    if value is None:
        return "–"
    return f"under {finest:g}" if value <= finest else number(value)


def ratios(part: Part, base: Part) -> list[Ratio]:
    return [
        Ratio(name, what, before, now)
        for name in part.routes
        if name in base.routes
        for what in ("p50", "p99")
        if (before := base.routes[name].latency_ms.get(what))
        and (now := part.routes[name].latency_ms.get(what))
    ]


def comparison(part: Part, base: Part) -> Table:
    by_route: dict[str, dict[str, Ratio]] = {}
    for one in ratios(part, base):
        by_route.setdefault(one.route, {})[one.what] = one
    head = ["route", "rate"]
    head += [f"{what} {column}" for what in ("p50", "p99") for column in ("base", "now", "ratio")]
    rows = []
    for name, found in by_route.items():
        rate = _rate(part, name) / _rate(base, name) if _rate(base, name) else None
        row = [name, "–" if rate is None else f"× {rate:.2f}"]
        for what in ("p50", "p99"):
            one = found.get(what)
            row += [number(one.base), number(one.now), f"× {one.ratio:.2f}"] if one else ["–"] * 3
        rows.append(row)
    return Table(head, rows)


def _rate(part: Part, name: str) -> float:
    return part.routes[name].requests / part.seconds if part.seconds else 0.0


def when(run: Run) -> str:
    return f"{datetime.fromisoformat(run.started):%Y-%m-%d %H:%M:%S} UTC"


def facts(run: Run) -> list[tuple[str, str]]:
    machine = run.machine
    load = " ".join(f"{value:.2f}" for value in run.load_average_before)
    found = [
        ("scenario", run.name),
        ("tool", f"{run.tool} {run.tool_version}".strip()),
        ("target", f"{run.target.url} ({run.target.via})"),
        ("replicas", ", ".join(run.target.replicas)),
        ("started", when(run)),
        ("took", f"{number(run.seconds)} s"),
        ("settings", ", ".join(f"{name} {value}" for name, value in run.settings.items())),
        (
            "machine",
            f"{machine.get('cpu', '')}, {machine.get('cores', '?')} CPUs, {machine.get('kernel', '')}",
        ),
        ("sources", str(machine.get("sources", ""))),
        ("load average before", load),
    ]
    return [(name, value) for name, value in found if value]
