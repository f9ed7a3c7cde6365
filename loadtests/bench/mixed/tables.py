"""The tables of the report."""

from statistics import median

from loadtests.bench.mixed.cells import MODES, TITLES
from loadtests.bench.mixed.published import MODES as PUBLISHED
from loadtests.bench.mixed.published import REQUESTS
from loadtests.bench.text import spread, table

KINDS = ("page", "load", "save", "all")

UNKNOWN = "–"

STEPS = ("accept", "queue", "handler", "write")
"""The phases of a request in their order."""

DATABASE = {
    "load, ms": ("corelane_database_operation_duration_seconds", "operation=get"),
    "save, ms": ("corelane_database_operation_duration_seconds", "operation=replace"),
    "wait for a connection, ms": ("corelane_database_connection_wait_seconds",),
    "commit of SQLite, ms": ("corelane_database_commit_duration_seconds",),
    "saves per commit": ("corelane_database_saves_per_commit",),
}
"""Of these histograms the means are shown."""

OURS = ("/static/", "/projects/")
"""Begins of the routes that users ask for."""


def values(cell: dict, part: str, *path: str) -> list[float]:
    """One figure of a part, round by round; 0 where there was no success."""
    found = []
    for sample in cell["samples"]:
        value = sample[part]
        for name in path:
            value = value.get(name, {}) if isinstance(value, dict) else {}
        found.append(value if isinstance(value, int | float) else 0.0)
    return found


def place(database: str, path: str) -> str:
    """A database and a way to the server."""
    return f"{TITLES[database]}, {TITLES[path]}"


def beside_published(record: dict) -> str:
    """The closed loop."""
    head = ["", "total, s", "requests/s", "p50, ms", "sd, ms", "p99, ms", "max, ms"]
    head += ["connect p99, ms", "first reply p99, ms", "errors"]
    lines = [_published(mode) for mode in MODES]
    for cell in record["cells"]:
        latency = ("closed", "latency_ms", "all")
        lines.append(
            [
                cell["title"],
                spread(values(cell, "closed", "seconds"), 2),
                spread(values(cell, "closed", "requests_per_second"), 0),
                spread(values(cell, *latency, "50"), 1),
                spread(values(cell, *latency, "sd"), 1),
                spread(values(cell, *latency, "99"), 1),
                spread(values(cell, *latency, "100"), 1),
                spread(values(cell, "closed", "connect_ms", "99"), 2),
                spread(values(cell, "closed", "first_reply_ms", "99"), 1),
                f"{sum(values(cell, 'closed', 'errors')):.0f}",
            ]
        )
    return table(head, lines)


def _published(mode: str) -> list[str]:
    found = PUBLISHED[mode]
    known = [found.p50_ms, found.sd_ms, None, None, found.connect_p99_ms, None, found.errors]
    figures = [UNKNOWN if figure is None else f"{figure:,.0f}" for figure in known]
    seconds = [f"{found.seconds:,.1f}", f"{REQUESTS / found.seconds:,.0f}"]
    return [f"published: {found.title}", *seconds, *figures]


def kinds(record: dict, part: str) -> str:
    """Latencies by kind."""
    head = ["", *(["requests/s"] if part == "open" else []), "kind"]
    head += ["p50, ms", "p90, ms", "p99, ms", "max, ms", "sd, ms", "errors"]
    lines = []
    for cell in record["cells"]:
        rate = (
            [f"{median(values(cell, part, 'requests_per_second')):,.0f}"] if part == "open" else []
        )
        first = [cell["title"], *rate]
        for kind in KINDS:
            latency = [
                spread(values(cell, part, "latency_ms", kind, each), 2)
                for each in ("50", "90", "99")
            ]
            rest = [
                f"{median(values(cell, part, 'latency_ms', kind, each)):,.1f}"
                for each in ("100", "sd")
            ]
            lines.append([*first, kind, *latency, *rest, _errors(cell, part, kind)])
            first = [""] * len(first)
    return table(head, lines)


def _errors(cell: dict, part: str, kind: str) -> str:
    counts = [
        count
        for sample in cell["samples"]
        for fault, count in sample[part]["faults"].items()
        if kind in ("all", fault.partition(":")[0])
    ]
    return f"{sum(counts):,}"


def pages(record: dict) -> str:
    """The p99 of a page with and without the database."""
    head = [
        "",
        "requests/s",
        "p50 beside, ms",
        "p50 alone, ms",
        "p99 beside, ms",
        "p99 alone, ms",
        "p99 ratio",
    ]
    lines = []
    for cell in record["cells"]:
        both = [(part, each) for each in ("50", "99") for part in ("open", "pages")]
        figures = [spread(values(cell, part, "latency_ms", "page", each), 2) for part, each in both]
        rate = f"{median(values(cell, 'open', 'rate')):,.0f}"
        lines.append([cell["title"], rate, *figures, spread(page_ratios(cell), 2)])
    return table(head, lines)


def page_ratios(cell: dict) -> list[float]:
    """The p99 of a page beside loads and saves in that of pages alone, round by round."""
    beside, alone = (values(cell, part, "latency_ms", "page", "99") for part in ("open", "pages"))
    return [mine / other if other else 0.0 for mine, other in zip(beside, alone, strict=True)]


def cpu(record: dict, part: str) -> str:
    """CPU time per request by part of the platform."""
    head = ["", "server, µs", "its writer of SQLite, µs", "PostgreSQL, µs", "gateway, µs"]
    head += ["users, µs", "cores busy"]
    lines = []
    for cell in record["cells"]:
        used = [
            values(cell, part, "cpu_us", name)
            for name in ("server", "writer", "database", "gateway", "generator")
        ]
        figures = [spread(each, 1) if any(each) else UNKNOWN for each in used]
        lines.append([cell["title"], *figures, spread(values(cell, part, "busy_cores"), 2)])
    return table(head, lines)


def phases(record: dict) -> str:
    """Means of the server's own histograms in the closed loop."""
    head = ["", "route", *(f"{step}, ms" for step in STEPS)]
    lines = []
    for cell in record["cells"]:
        title = cell["title"]
        for route in _routes(cell):
            found = [
                _mean(cell, "corelane_request_phase_seconds", route, f"phase={step}")
                for step in STEPS
            ]
            lines.append([title, f"`{route.partition('=')[2]}`", *found])
            title = ""
    return f"{table(head, lines)}\n\n{_database(record)}"


def _routes(cell: dict) -> list[str]:
    found = {
        label
        for sample in cell["samples"]
        for each in sample["closed"]["phases"]
        for label in each["labels"]
        if label.startswith("route=") and label.partition("=")[2].startswith(OURS)
    }
    return sorted(found, reverse=True)


def _database(record: dict) -> str:
    lines = [
        [cell["title"], *(_mean(cell, *series) for series in DATABASE.values())]
        for cell in record["cells"]
    ]
    return table(["", *DATABASE], lines)


def _mean(cell: dict, name: str, *labels: str) -> str:
    """Durations in milliseconds."""
    unit = 1e3 if name.endswith("_seconds") else 1.0
    found = [
        each["mean"] * unit
        for sample in cell["samples"]
        for each in sample["closed"]["phases"]
        if each["name"] == name and set(labels) <= set(each["labels"])
    ]
    return spread(found, 2) if found else UNKNOWN
