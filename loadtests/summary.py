"""Shows a run as a short table."""

from loadtests.k6 import tagged
from loadtests.record import ALL, Figure, Part, Route, Run
from loadtests.report import tables

ROUTE = "{:<24} {:>9} {:>8} {:>9} {:>9} {:>9}"


def describe(run: Run) -> str:
    """What happened on each route, who answered, and which thresholds failed."""
    total = sum(part.requests for part in run.parts)
    way = "directly to" if run.target.via == "direct" else "through"
    head = (
        f"{run.name}: {total} requests in {run.seconds:.0f} s {way} {run.target.url} "
        f"({run.tool} {run.tool_version}, load average {run.load_average_before[0]:.2f})"
    )
    lines = [head]
    for part in run.parts:
        lines += ["", *_part(part)]
    lines += ["", *run.notes, *_figures(run.figures)]
    for replica, metric in tagged(
        (run.k6 or {}).get("metrics", {}), "replica_replies", "replica"
    ).items():
        lines.append(f"{replica:<11} {metric['values']['count']:.0f} replies")
    for part in run.parts:
        lines += _checks(part)
    dropped = sum(part.dropped for part in run.parts)
    lines.append(f"not started {dropped} requests, without a free virtual user")
    lines.append(_verdict(run))
    return "\n".join(lines)


def _part(part: Part) -> list[str]:
    head = "route" if part.name == ALL else part.name
    names = [name for name in part.routes if name != ALL] or list(part.routes)
    return [
        ROUTE.format(head, "requests", "failed", "p50 ms", "p99 ms", "max ms"),
        *[_route(name, part.routes[name]) for name in names],
        *_figures(part.figures),
    ]


def _figures(figures: dict[str, Figure]) -> list[str]:
    return [f"{name.replace('_', ' '):<32} {tables.figure(one)}" for name, one in figures.items()]


def _route(name: str, route: Route) -> str:
    times = (route.latency_ms.get(key) for key in ("p50", "p99", "max"))
    shown = ("-" if time is None else f"{time:.2f}" for time in times)
    return ROUTE.format(name, route.requests, route.failed, *shown)


def _checks(part: Part) -> list[str]:
    if part.checks is None:
        return []
    name = "checks" if part.name == ALL else f"checks of {part.name}"
    lines = [f"{name:<11} {part.checks.passed} passed, {part.checks.failed} failed"]
    return lines + [f"            failed: {check}" for check in part.checks.failed_names]


def _verdict(run: Run) -> str:
    if run.failed_thresholds:
        lines = [f"            {line}" for line in run.failed_thresholds]
        return "\n".join(["thresholds  FAILED:", *lines])
    if run.exit_code:
        return f"thresholds  hold as far as it came; {run.tool} ended with exit {run.exit_code}"
    return "thresholds  all hold"
