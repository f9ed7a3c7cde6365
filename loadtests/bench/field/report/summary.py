"""Who is first in each row, and what Corelane is behind in."""

import tomllib
from pathlib import Path
from statistics import median

from loadtests.bench.field.report.measures import LATENCY, OWN
from loadtests.bench.field.report.rows import (
    COMPARED,
    PROXIES,
    TITLES,
    WORKLOADS,
    compared,
    of_workload,
)
from loadtests.bench.field.report.standing import Place, Standing, place
from loadtests.bench.field.report.tables import NONE, bullets, cell
from loadtests.bench.text import spread, table

REASONS = Path(__file__).with_name("reasons.toml")


def places(record: dict) -> list[Place]:
    """Corelane's place in every row."""
    return [place(row) for row in compared(record)]


def first(record: dict) -> str:
    """Every row: who is first, and Corelane beside the best of the others."""
    lines = [
        [
            TITLES[one.row.workload],
            one.row.measure.head,
            one.row.ranked()[0],
            cell(one.row, one.row.ranked()[0]),
            cell(one.row, one.row.us),
            f"{one.place} of {len(one.row.ranked())}",
            _beside(one),
            one.standing.value,
        ]
        for one in places(record)
    ]
    head = ["", "measure", "first", "its figure", "Corelane", "place", "× the best other", ""]
    return table(head, lines) if lines else ""


def short(record: dict) -> str:
    """Corelane's place in every row, in little room."""
    return "\n\n".join(part for part in (_matrix(record), _rest(record)) if part)


def _matrix(record: dict) -> str:
    """The closed and open loops: a line for each workload, a column for each measure."""
    found = {(one.row.workload, one.row.measure.key): one for one in places(record)}
    chosen = COMPARED["hello"]
    lines = [
        [
            TITLES[workload],
            *(
                _short(found[workload, one.key]) if (workload, one.key) in found else NONE
                for one in chosen
            ),
        ]
        for workload in WORKLOADS
        if any(workload == key for key, _ in found)
    ]
    return table(["", *(one.head for one in chosen)], lines) if lines else ""


def _rest(record: dict) -> str:
    """What has no loops: a line for each workload, its measures one after the other."""
    by_workload: dict[str, list[str]] = {}
    for one in places(record):
        if one.row.workload not in WORKLOADS:
            told = _short(one).replace("<br>", ", ")
            by_workload.setdefault(one.row.workload, []).append(f"{one.row.measure.title}: {told}")
    return bullets([f"{TITLES[name]}: {'; '.join(rows)}." for name, rows in by_workload.items()])


def losses(record: dict) -> str:
    """The rows in which Corelane is behind, then the reasons that are known."""
    behind = [one for one in places(record) if one.standing is Standing.BEHIND]
    if not behind:
        return "None."
    lines = [
        [
            TITLES[one.row.workload],
            one.row.measure.head,
            one.best,
            cell(one.row, one.best),
            cell(one.row, one.row.us),
            _beside(one),
        ]
        for one in behind
    ]
    head = ["", "measure", "the best", "its figure", "Corelane", "× the best"]
    return "\n\n".join(part for part in (table(head, lines), _why(behind)) if part)


def _why(behind: list[Place]) -> str:
    """Each reason once, with the rows that it is of, and the rows without one."""
    known = tomllib.loads(REASONS.read_text())
    rows: dict[str, list[str]] = {}
    for one in behind:
        row = one.row
        reason = known.get(row.workload, {}).get(row.measure.key)
        reason = reason or known.get("any", {}).get(row.measure.key, "Not explained yet.")
        rows.setdefault(reason, []).append(f"{TITLES[row.workload]}, {row.measure.title}")
    return bullets([f"**{'; '.join(names)}:** {reason}" for reason, names in rows.items()])


def count(found: list[Place]) -> str:
    """How often it is first, level and behind."""
    by = {standing: sum(one.standing is standing for one in found) for standing in Standing}
    return (
        f"first in {by[Standing.FIRST]}, level with the best other in {by[Standing.LEVEL]} and "
        f"behind in {by[Standing.BEHIND]} of {len(found)} rows"
    )


def sentences(record: dict) -> list[str]:
    """The result in a few sentences, each made of the figures."""
    found = places(record)
    kinds = {
        "Of a server's own cost": [one for one in found if _of_a_server(one, OWN)],
        "Of a server's latencies": [one for one in found if _of_a_server(one, LATENCY)],
        "In front of replicas": [one for one in found if one.row.workload == PROXIES],
    }
    told = [f"{what}, Corelane is {count(rows)}." for what, rows in kinds.items() if rows]
    return [*told, *floor(record)]


def _of_a_server(one: Place, kind: str) -> bool:
    return one.row.workload != PROXIES and one.row.measure.kind == kind


TARGET = 1.10


def floor(record: dict) -> list[str]:
    """How far Corelane is above the floor, and who is nearest."""
    told = []
    for workload in WORKLOADS:
        row = next((row for row in of_workload(record, workload) if row.measure.key == "cpu"), None)
        if row is None or "floor" not in row.values or row.us not in row.values:
            continue
        above = {name: row.ratios(name, "floor") for name in row.values if name != "floor"}
        above = {name: values for name, values in above.items() if values}
        if row.us not in above:
            continue
        mine = above[row.us]
        nearest = sorted(above, key=lambda name: median(above[name]))[:4]
        told.append(
            f"CPU time of {TITLES[workload]}: {spread(mine, 2)} times the floor"
            + (f", {_target(mine)}" if workload == "hello" else "")
            + "; nearest to it are "
            + ", ".join(f"{name} {median(above[name]):.2f}" for name in nearest)
            + "."
        )
    return told


def _target(ratios: list[float]) -> str:
    met = "meets" if median(ratios) <= TARGET else "misses"
    return f"which {met} the target of {TARGET:.2f}"


def _beside(one: Place) -> str:
    if not one.ratios:
        return NONE
    return f"{one.ratios[0]:.2f}" if len(one.ratios) == 1 else spread(one.ratios, 2)


def _short(one: Place) -> str:
    beside = f"{median(one.ratios):.2f} × {one.best}" if one.ratios else one.best
    if one.standing is Standing.BEHIND:
        return f"{one.place} of {len(one.row.ranked())}<br>{beside}"
    first = one.standing is Standing.FIRST
    return f"{'**first**' if first else one.standing.value}<br>{beside}"
