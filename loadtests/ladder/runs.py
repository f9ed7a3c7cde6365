"""A run of the ladder in the one form that all load tests have."""

from statistics import median

from loadtests.ladder import at_once
from loadtests.ladder.plan import Plan
from loadtests.record import Figure, Run, Target
from loadtests.report.collect import Collector


def run_of(plan: Plan, result: dict, summary: dict[str, list[dict]], about: dict) -> Run:
    """The record: a part for each cell, of all rounds."""
    gatherer = Collector(plan.seed)
    for part, cells in result["cells"].items():
        for cell in cells:
            _add(gatherer, part, cell)
    parts = gatherer.parts()
    for part in parts:
        part.figures = _figures(part.name, summary)
    return Run(
        name="ladder",
        tool="load-generator",
        target=Target("http://127.0.0.1", "gateway" if plan.paths == ("gateway",) else "direct"),
        settings=plan.to_dict(),
        parts=parts,
        **about,
    )


def name_of(part: str, cell: dict) -> str:
    """What a cell is called."""
    if part == "at-once":
        return f"{cell['target']}, {cell['connections']} connections {cell['come']}"
    return f"{cell['path']}, {cell['connections']:,} {cell.get('manner', 'idle')}"


def _add(gatherer: Collector, part: str, cell: dict) -> None:
    name, span = name_of(part, cell), str(cell["round"])
    if part == "at-once":
        for t, latency in zip(cell["begun_s_each"], cell["answer_ms"], strict=True):
            gatherer.request(name, at_once.PAGE_ROUTE, t, latency, False, span)
        for _ in range(cell["failed"]):
            gatherer.request(name, at_once.PAGE_ROUTE, 0.0, 0.0, True, span)
        return
    for route in ("alone", "beside"):
        seen = cell[route]
        for t, latency in zip(seen["t_s"], seen["latency_ms"], strict=True):
            gatherer.request(name, f"/hello {route}", t, latency, False, f"{span} {route}")
        for _ in range(seen["wrong"]):
            gatherer.request(name, f"/hello {route}", 0.0, 0.0, True, f"{span} {route}")


def _figures(name: str, summary: dict[str, list[dict]]) -> dict[str, Figure]:
    """Medians of the rounds."""
    found: dict[str, Figure] = {}
    for part, cells in summary.items():
        mine = [cell for cell in cells if name_of(part, cell) == name]
        if not mine:
            continue
        if part == "at-once":
            found["seconds"] = Figure(median(cell["seconds"] for cell in mine), "s")
            found["most_at_once"] = Figure(
                median(cell["most_at_once"] for cell in mine), "connections"
            )
            continue
        for key in ("p50", "p99", "max"):
            times = [cell["opened"]["connect_ms"].get(key, 0.0) for cell in mine]
            found[f"connect_{key}"] = Figure(median(times), "ms")
        found["p99_ratio"] = Figure(median(cell["p99_ratio"] for cell in mine), "×")
        found["seconds_to_open"] = Figure(median(cell["opened"]["seconds"] for cell in mine), "s")
        for key in ("server", "gateway", "slab", "buffers"):
            value = median(cell["kib_per_connection"][key] for cell in mine)
            found[f"{key}_memory_per_connection"] = Figure(value, "KiB")
    return found
