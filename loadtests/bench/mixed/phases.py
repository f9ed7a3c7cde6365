"""Where requests spend their time, by the server's own histograms."""

PHASE, OPERATION = "corelane_request_phase_seconds", "corelane_database_operation_duration_seconds"

ROUTES = {"page": "/static/{*path}", "project": "/projects/{id}"}
STEPS = ("accept", "queue", "handler", "write")
"""The phases of a request, in their order."""

DATABASE = {
    "load, ms": (OPERATION, 'operation="get"'),
    "save, ms": (OPERATION, 'operation="replace"'),
    "wait for a connection, ms": ("corelane_database_connection_wait_seconds",),
    "commit of SQLite, ms": ("corelane_database_commit_duration_seconds",),
    "saves per commit": ("corelane_database_saves_per_commit",),
}

HISTOGRAMS: dict[str, tuple[str, ...]] = {
    **{
        f"{kind} {step}": (PHASE, f'route="{route}"', f'phase="{step}"')
        for kind, route in ROUTES.items()
        for step in STEPS
    },
    **DATABASE,
}
"""Name and labels of each, by the name in a row."""


def between(before: str, after: str) -> dict[str, float]:
    """The mean of what each histogram counted between two readings of all metrics; times in ms."""
    found = {}
    for name, (metric, *labels) in HISTOGRAMS.items():
        count, total = (
            _sum(after, f"{metric}_{part}", labels) - _sum(before, f"{metric}_{part}", labels)
            for part in ("count", "sum")
        )
        if count:
            found[name] = total / count * (1e3 if metric.endswith("_seconds") else 1)
    return found


def _sum(metrics: str, name: str, labels: list[str]) -> float:
    """Of all series with these labels, those of all lanes."""
    series = (line for line in metrics.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
    return sum(
        float(line.rpartition(" ")[2]) for line in series if all(label in line for label in labels)
    )
