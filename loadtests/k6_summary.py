"""Reads what k6 itself counted: the argument of handleSummary."""

from loadtests.record import ALL, Checks, Part, Route

STATISTICS = {
    "min": "min",
    "mean": "avg",
    "p50": "med",
    "p90": "p(90)",
    "p95": "p(95)",
    "p99": "p(99)",
    "p99.9": "p(99.9)",
    "max": "max",
}
"""Those of the record, as k6 names them."""


def failed_thresholds(data: dict) -> list[str]:
    """Every threshold that does not hold, with its metric."""
    return [
        f"{name}: {expression}"
        for name, metric in data["metrics"].items()
        for expression, result in metric.get("thresholds", {}).items()
        if not result["ok"]
    ]


def parts(data: dict) -> list[Part]:
    """All as one part, without samples; it has the routes that a threshold names."""
    metrics = data["metrics"]
    seconds = data["state"]["testRunDurationMs"] / 1000
    routes = {ALL: _route(metrics, "")}
    for name in tagged(metrics, "http_reqs", "name"):
        routes[name] = _route(metrics, f"{{name:{name}}}")
    return [
        Part(
            name=ALL,
            seconds=round(seconds, 3),
            requests=routes[ALL].requests,
            failed=routes[ALL].failed,
            requests_per_second=round(routes[ALL].requests / seconds, 3) if seconds else 0.0,
            dropped=round(value(metrics, "dropped_iterations", "count")),
            checks=Checks(
                passed=round(value(metrics, "checks", "passes")),
                failed=round(value(metrics, "checks", "fails")),
                failed_names=_failed_checks(data["root_group"]),
            ),
            routes=routes,
        )
    ]


def _route(metrics: dict, tag: str) -> Route:
    times = metrics.get(f"http_req_duration{tag}", {"values": {}})["values"]
    return Route(
        requests=round(value(metrics, f"http_reqs{tag}", "count")),
        # For a rate of failures, k6 counts those as passes.
        failed=round(value(metrics, f"http_req_failed{tag}", "passes")),
        latency_ms={name: times[key] for name, key in STATISTICS.items() if key in times},
    )


def value(metrics: dict, name: str, key: str) -> float:
    """A value of a metric; k6 leaves out a metric that was never counted."""
    return metrics.get(name, {"values": {}})["values"].get(key, 0)


def tagged(metrics: dict, name: str, tag: str) -> dict[str, dict]:
    """The series of a metric by the value of one tag."""
    start = f"{name}{{{tag}:"
    return {
        key.removeprefix(start).removesuffix("}"): metric
        for key, metric in sorted(metrics.items())
        if key.startswith(start)
    }


def _failed_checks(group: dict) -> list[str]:
    failed = [
        f"{check['name']} ({check['fails']} of {check['fails'] + check['passes']})"
        for check in group["checks"]
        if check["fails"]
    ]
    return failed + [line for inner in group["groups"] for line in _failed_checks(inner)]
