"""Reads what k6 itself counted: the argument of handleSummary."""


def failed_thresholds(data: dict) -> list[str]:
    """Every threshold that does not hold, with its metric."""
    return [
        f"{name}: {expression}"
        for name, metric in data["metrics"].items()
        for expression, result in metric.get("thresholds", {}).items()
        if not result["ok"]
    ]


def tagged(metrics: dict, name: str, tag: str) -> dict[str, dict]:
    """The series of a metric by the value of one tag."""
    start = f"{name}{{{tag}:"
    return {
        key.removeprefix(start).removesuffix("}"): metric
        for key, metric in sorted(metrics.items())
        if key.startswith(start)
    }
