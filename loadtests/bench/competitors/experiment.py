"""`competitors`: compares Corelane with its alternatives in one run."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from loadtests.bench.competitors import report
from loadtests.bench.competitors.competitor import CONNECTIONS, MIXED, PARTS
from loadtests.bench.competitors.measures import ALONE, CLOSED, PAIRED, SHARED
from loadtests.bench.competitors.test_bed import COMPETITORS, CompetitorsBed, test_bed
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Plan, Row, Task
from loadtests.bench.experiment.record import Record, figure_of
from loadtests.bench.experiment.servers import CORELANE
from loadtests.usage import positive
from tools.errors import ToolError

BRIEF = {
    "cpu_us": "µs",
    "latency_ms.p99": "ms p99",
    "cheap_ms.p99": "ms p99 of short requests",
    "kib_per_connection": "KiB",
    "requests_per_second": "/s",
}
"""Live values of a row, with units."""


class Competitors(Experiment):
    """Measures one competitor at a time on one CPU, and some on two CPUs. Every round covers all
    competitors.
    """

    name = "competitors"
    title = "Corelane and other servers"
    help = "Corelane compared with nginx, Apache, Node, Spring Boot, Netty, Go and Rust servers"
    lead = "The method, its limits and the conclusions: docs/benchmarks.md."
    rounds = 3
    seconds = CLOSED
    together = ("server",)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--connections",
            type=positive,
            default=10_000,
            metavar="N",
            help="connections in the parts idle and c10k; default: 10,000",
        )

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            {"server": name, "part": part}
            for name, competitor in COMPETITORS.items()
            for part in PARTS
            if part in competitor.parts
        ]

    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> AbstractContextManager[CompetitorsBed]:
        return test_bed(plan, dict.fromkeys(task["server"] for task in tasks))

    def measure_group(
        self, bed: CompetitorsBed, tasks: Sequence[Task], number: int
    ) -> Iterator[Row]:
        """Measures start and memory with separate starts, then all other parts."""
        competitor = bed.competitor(tasks[0]["server"])
        wanted = [task["part"] for task in tasks]

        def rows(turn: AbstractContextManager, known: dict[str, Callable]) -> Iterator[Row]:
            if parts := [part for part in known if part in wanted]:
                with turn as subject:
                    for part in parts:
                        labels = {"server": competitor.name, "part": part}
                        measured = known[part](bed, subject, number)
                        yield from ({**labels, **row} for row in _tried(measured))

        for part, measure in ALONE.items():
            yield from rows(bed.started(competitor), {part: measure})
        yield from rows(bed.warm(competitor), SHARED)
        yield from rows(bed.started(competitor, 2), PAIRED)

    def optional(self, task: Task) -> bool:
        return True

    def brief(self, row: Row) -> str:
        if "error" in row:
            return row["error"]
        told = [row[label] for label in ("part", "loop", "cpus", "of") if label in row]
        for figure, unit in BRIEF.items():
            if (value := figure_of(row, figure)) is not None:
                told.append(f"{value:,.2f} {unit}")
        return f"{' '.join(told)}, {row.get('wrong', row.get('failed'))} wrong"

    def verdicts(self, record: Record) -> Iterator[str]:
        yield from report.verdicts(record)

    def report(self, page: Page, record: Record) -> None:
        report.report(page, record)

    def failed(self, record: Record) -> int:
        """If a peer cannot sustain a load, or leaves requests unanswered during long requests, that
        is a finding. For Corelane, it is an error.
        """
        return sum(
            row.get("wrong", 0)
            for row in record.rows
            if row["part"] not in (CONNECTIONS, MIXED) or row["server"].startswith(CORELANE)
        )


def _tried(rows: Iterator[Row]) -> Iterator[Row]:
    """Reports a part that a competitor fails as a row, and continues with the other competitors."""
    try:
        yield from rows
    except ToolError as error:
        yield {"error": str(error)}
