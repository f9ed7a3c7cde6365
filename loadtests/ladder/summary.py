"""Cells without their single requests: what is told of each, round by round."""

from collections.abc import Sequence
from math import ceil

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}


def quantiles(times: Sequence[float]) -> dict[str, float]:
    """Nearest-rank percentiles of times in order; none of no times."""
    if not times:
        return {}
    return {
        name: times[max(0, ceil(percent / 100 * len(times)) - 1)]
        for name, percent in PERCENTILES.items()
    }


def summarized(cells: dict[str, list[dict]]) -> dict[str, list[dict]]:
    """The same cells, with percentiles for times."""
    return {part: [_summary(part, cell) for cell in found] for part, found in cells.items()}


def _summary(part: str, cell: dict) -> dict:
    if part == "at-once":
        times = ("answer_ms", "since_due_ms", "connect_ms")
        found = {**cell, **{name: quantiles(cell[name]) for name in times}}
        del found["begun_s_each"]
        return found
    count, opened = cell["connections"], cell["opened"]
    found = {
        **cell,
        "opened": {
            **opened,
            **{name: quantiles(opened[name]) for name in ("connect_ms", "answer_ms")},
        },
        "kib_per_connection": {name: kib / count for name, kib in cell["grown_kib"].items()},
        "alone": _live(cell["alone"]),
        "beside": _live(cell["beside"]),
    }
    found["p99_ratio"] = found["beside"]["p99"] / found["alone"]["p99"]
    if "lasted_s" in found:
        found["lasted_s"] = quantiles(cell["lasted_s"])
    return found


def _live(seen: dict) -> dict:
    times = sorted(seen["latency_ms"])
    return {"requests": len(times) + seen["wrong"], "wrong": seen["wrong"], **quantiles(times)}


def wrong(cells: dict[str, list[dict]]) -> int:
    """Requests and connections that failed, but for those of slow clients, whom servers may refuse."""
    found = sum(cell["failed"] for cell in cells.get("at-once", []))
    for part in ("idle", "slow"):
        for cell in cells.get(part, []):
            found += cell["opened"]["failed"] + cell["alone"]["wrong"] + cell["beside"]["wrong"]
            if part == "idle":
                found += cell["connections"] - cell["left"] - cell["opened"]["failed"]
    return found


def asked(cells: dict[str, list[dict]]) -> int:
    """Connections and requests of all."""
    found = sum(cell["requests"] for cell in cells.get("at-once", []))
    for part in ("idle", "slow"):
        for cell in cells.get(part, []):
            found += cell["connections"] + cell["alone"]["requests"] + cell["beside"]["requests"]
    return found
