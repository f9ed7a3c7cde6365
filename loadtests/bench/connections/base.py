"""The interface of a part of the benchmark, and its report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.generator import Place
from loadtests.bench.experiment.page import Figure, Page
from loadtests.bench.experiment.plan import Plan, Row, TestBed
from loadtests.bench.experiment.record import Record, figure_of
from loadtests.bench.experiment.servers import Pem

QUICK = 0.2
"""Scale of the connection counts with --quick."""


@dataclass
class ConnectionsBed(TestBed):
    """State that is created once."""

    folder: Path = Path()
    """Folder for files of the run."""
    pem: Pem | None = None

    @property
    def share(self) -> float:
        """Returns the scale of the connection counts."""
        return self.plan.options.share or (QUICK if self.plan.quick else 1.0)

    def count(self, usual: int, least: int = 8) -> int:
        """Returns the scaled number of connections."""
        return max(least, round(usual * self.share))

    @property
    def clients(self) -> Place:
        """Returns the CPU of the clients: the one that their server does not use."""
        return Place([self.cpus[1]])


class Part:
    """One measurement, and its section of the report."""

    scenario: str
    name: str
    title: str
    arms: Sequence[str]
    tables: Sequence[Sequence[Figure]]
    """The columns of each table. Its lines are those with the first figure."""
    rounds = 1.0
    """Share of the benchmark's rounds."""
    tools: Sequence[str] = ()
    """Tools that the part needs in addition to server and generator."""

    def rounds_of(self, plan: Plan) -> int:
        """Returns the number of rounds that measure the part."""
        return plan.rounds if plan.quick else max(1, round(self.rounds * plan.rounds))

    def prepare(self, bed: ConnectionsBed) -> None:
        """Prepares what all rounds share."""

    def measure(self, bed: ConnectionsBed, arms: Sequence[str], number: int) -> Iterator[Row]:
        """Measures these arms in this order; rows contain the `arm`, and a `line` if it has several."""
        raise NotImplementedError

    def brief(self, row: Row) -> str:
        """Returns a short summary of a row."""
        figures = {one.title: figure_of(row, one.name) for one in self.tables[0] if not one.over}
        words = [f"{title} {value:,.2f}" for title, value in figures.items() if value]
        return f"{row.get('line', row['arm'])}: {', '.join(words[:3])}, {row['wrong']} wrong"

    def report(self, page: Page, record: Record) -> None:
        """Adds tables to the report."""
        lines = self.lines(record)
        for table in self.tables:
            first = table[0]
            there = {name: line for name, line in lines.items() if first.values(record, line)}
            page.figures("", there, *table)

    def lines(self, record: Record) -> dict[str, dict[str, object]]:
        """Returns the lines in the order of the arms, and within an arm in the order of measurement."""
        arms = record.labels("arm", part=self.name)
        rows = sorted(record.select(part=self.name), key=lambda row: arms.index(row["arm"]))
        names = dict.fromkeys(row["line"] for row in rows)
        return {name: {"part": self.name, "line": name} for name in names}
