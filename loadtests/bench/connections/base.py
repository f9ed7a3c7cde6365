"""Interface of a benchmark part, and its report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.generator import Place
from loadtests.bench.experiment.page import Figure, Page
from loadtests.bench.experiment.plan import Plan, Row, TestBed
from loadtests.bench.experiment.record import Record, figure_of
from loadtests.bench.experiment.servers import Pem

QUICK = 0.2


@dataclass
class ConnectionsBed(TestBed):
    folder: Path = Path()
    pem: Pem | None = None

    @property
    def share(self) -> float:
        return self.plan.options.share or (QUICK if self.plan.quick else 1.0)

    def count(self, usual: int, least: int = 8) -> int:
        return max(least, round(usual * self.share))

    @property
    def clients(self) -> Place:
        """The clients' CPU, which their server does not use."""
        return Place([self.cpus[1]])


class Part:
    scenario: str
    name: str
    title: str
    arms: Sequence[str]
    tables: Sequence[Sequence[Figure]]
    """Columns of each table. Every line of a table contains the first figure."""
    rounds = 1.0
    tools: Sequence[str] = ()

    def rounds_of(self, plan: Plan) -> int:
        return plan.rounds if plan.quick else max(1, round(self.rounds * plan.rounds))

    def prepare(self, bed: ConnectionsBed) -> None:
        """Prepares the state that all rounds share."""

    def measure(self, bed: ConnectionsBed, arms: Sequence[str], number: int) -> Iterator[Row]:
        """Measures these arms in order. Rows contain the `arm`, and a `line` if the arm has several
        lines.
        """
        raise NotImplementedError

    def brief(self, row: Row) -> str:
        figures = {one.title: figure_of(row, one.name) for one in self.tables[0] if not one.over}
        words = [f"{title} {value:,.2f}" for title, value in figures.items() if value]
        return f"{row.get('line', row['arm'])}: {', '.join(words[:3])}, {row['wrong']} wrong"

    def report(self, page: Page, record: Record) -> None:
        lines = self.lines(record)
        for table in self.tables:
            first = table[0]
            there = {name: line for name, line in lines.items() if first.values(record, line)}
            page.figures("", there, *table)

    def lines(self, record: Record) -> dict[str, dict[str, object]]:
        """Lines in the order of the arms, and within an arm in the order of measurement."""
        arms = record.labels("arm", part=self.name)
        rows = sorted(record.select(part=self.name), key=lambda row: arms.index(row["arm"]))
        names = dict.fromkeys(row["line"] for row in rows)
        return {name: {"part": self.name, "line": name} for name in names}
