"""The parts of docs/benchmarks.md and of the README that are made of the figures, between markers."""

import re
from collections.abc import Callable
from statistics import median

from loadtests.bench.field.report import growth, measures, page, reading, rows, summary, tables
from loadtests.bench.field.report.measures import Measure
from loadtests.bench.field.report.rows import FLOOR, TITLES, US, WORKLOADS, Row
from loadtests.bench.text import table
from local.settings import REPOSITORY
from tools.errors import ToolError

PAPER = REPOSITORY / "docs" / "benchmarks.md"

PAGES = (PAPER, REPOSITORY / "README.md")
"""Those with generated parts."""

_PART = re.compile(r"<!-- generated: (?P<name>[a-z0-9-]+) -->\n.*?<!-- end -->", re.DOTALL)


def filled(text: str, record: dict) -> str:
    """A page with its parts written anew."""

    def part(found: re.Match) -> str:
        name = found["name"]
        if name not in PARTS:
            raise ToolError(f"no part {name}; there are {', '.join(PARTS)}")
        body = PARTS[name](record)
        # Between blank lines, for readers to whom a comment would be a row of the table.
        middle = f"\n{body}\n\n" if body else ""
        return f"<!-- generated: {name} -->\n{middle}<!-- end -->"

    return _PART.sub(part, text)


def result(record: dict) -> str:
    """The result in sentences."""
    return tables.bullets(summary.sentences(record))


def setting(record: dict) -> str:
    """Machine, versions, how quiet it was."""
    return reading.facts(record) + "\n\n" + tables.bullets(page.notes(record))


def costs(record: dict) -> str:
    """CPU time per request, a column for each workload."""
    return _across(record, measures.CPU)


def throughput(record: dict) -> str:
    """Requests per second from one CPU, a column for each workload."""
    return _across(record, measures.THOUSANDS)


def latencies(record: dict) -> str:
    """p99 at the fixed rate, a column for each workload."""
    return _across(record, measures.P99)


def grown(name: str) -> Callable[[dict], str]:
    """What was found of how cost grows with one thing."""

    def told(record: dict) -> str:
        part = growth.parts(record).get(name)
        if part is None:
            return ""
        shown = (part.get("about", ""), growth.laws(part), tables.bullets(part.get("notes", [])))
        return "\n\n".join(one for one in shown if one)

    return told


def _across(record: dict, measure: Measure) -> str:
    found: dict[str, Row] = {
        name: row
        for name in WORKLOADS
        for row in rows.rows(rows.samples(record, name), name, (measure,))
    }
    if not found:
        return ""
    names = list(dict.fromkeys(name for row in found.values() for name in row.values))
    by = next(iter(found.values()))
    best = by.ordered()
    ordered = [*best, *(name for name in names if name not in best)]
    lines = [[_bold(name), *(_with_ratio(row, name) for row in found.values())] for name in ordered]
    head = f"{measure.head}<br>× {US}"
    return table([head, *(TITLES[name] for name in found)], lines)


def _with_ratio(row: Row, name: str) -> str:
    if name not in row.values:
        return tables.NONE
    ratios = row.ratios(name, row.us)
    beside = f"<br>× {median(ratios):.2f}" if ratios and name != row.us else ""
    return tables.cell(row, name) + beside


def _bold(name: str) -> str:
    return f"**{name}**" if name == US else f"*{name}*" if name == FLOOR else name


def _table_of(name: str) -> Callable[[dict], str]:
    return lambda record: "\n\n".join(tables.workload(record, name))


PARTS = {
    "result": result,
    "setting": setting,
    "contenders": tables.contenders,
    "places": summary.short,
    "losses": summary.losses,
    "costs": costs,
    "throughput": throughput,
    "latencies": latencies,
    "mixed": _table_of("mixed"),
    "idle": _table_of("idle"),
    "size": _table_of("size"),
    "c10k": _table_of("c10k"),
    "proxies": _table_of("proxies"),
    **{f"scaling-{name}": grown(name) for name in growth.TITLES},
}
"""By the name in the marker."""
