"""What a part of the benchmark fills in, and the rows that it reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.connections.servers import Pem
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Generator, Place, Work
from loadtests.bench.experiment.page import Page, cell
from loadtests.bench.experiment.plan import Plan, Row, Stand
from loadtests.bench.experiment.record import Figure, Record

QUICK = 0.2
"""Numbers of connections with --quick, in the usual ones."""


@dataclass
class ConnectionsStand(Stand):
    """Programs, and what is found once."""

    programs: Programs | None = None
    folder: Path = Path()
    """For files of the run."""
    pem: Pem | None = None
    work: Work | None = None

    @property
    def share(self) -> float:
        """Numbers of connections, in the usual ones."""
        return self.plan.options.share or (QUICK if self.plan.quick else 1.0)

    def count(self, usual: int, least: int = 8) -> int:
        """So many connections instead of the usual number."""
        return max(least, round(usual * self.share))

    @property
    def clients(self) -> Place:
        """The CPU of those whose server has the other one."""
        return Place([self.cpus[1]])

    def generator(self, mode: str, to: str, *, first: bool = True, **options: object) -> Generator:
        """On both CPUs, as the lanes are; ahead of them, or it could not send when a request is due."""
        place = Place(list(self.cpus), first=first)
        return Generator(self.programs.generator, place, mode, to, **options)


Column = tuple[str, Figure, int] | tuple[str, Figure, int, float]
"""Its title, the figure, digits, and what it is multiplied with."""


@dataclass(frozen=True)
class Rows:
    """Those of a part."""

    record: Record
    part: str

    def lines(self, having: Figure = "round") -> list[str]:
        """The lines that have a figure: in the order of the arms, and of one arm as they were measured."""
        found = self.record.select(part=self.part)
        arms = self.record.labels("arm", part=self.part)
        found.sort(key=lambda row: arms.index(row["arm"]))
        return [
            line
            for line in dict.fromkeys(row["line"] for row in found)
            if self.values(line, having)
        ]

    def values(self, line: str, figure: Figure) -> list[float]:
        """A figure of a line, round by round."""
        return self.record.values(figure, part=self.part, line=line)

    def ratios(self, figure: Figure, line: str, base: str) -> list[float]:
        """A figure of one line in that of another of the same round."""
        return self.record.ratios(figure, {"line": line}, {"line": base}, part=self.part)

    def table(
        self, page: Page, columns: Sequence[Column], lines: Sequence[str] | None = None
    ) -> None:
        """Adds a table of figures: medians with the lowest and the highest."""

        def column(title: str, figure: Figure, digits: int, scale: float = 1.0):
            return title, lambda line: cell(self.values(line, figure), digits, scale)

        page.table("", lines or self.lines(), *(column(*one) for one in columns))


class Part:
    """One thing that is measured, and its section of the report."""

    scenario: str
    name: str
    title: str
    method: str
    """Said under the title; with the record's facts in braces."""
    arms: Sequence[str]
    rounds = 1.0
    """In the benchmark's."""
    tools: Sequence[str] = ()
    """Tools that it needs in addition to server and generator."""
    works = False
    """Whether it needs the cost of `/work`."""

    def rounds_of(self, plan: Plan) -> int:
        """So many rounds of a run measure it."""
        return plan.rounds if plan.quick else max(1, round(self.rounds * plan.rounds))

    def prepare(self, stand: ConnectionsStand) -> None:
        """Finds what all rounds share."""

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        """Measures these arms, in this order; rows have the `arm`, and a `line` if one has several."""
        raise NotImplementedError

    def brief(self, row: Row) -> str:
        """A short summary of a row."""
        raise NotImplementedError

    def reading(self, rows: Rows) -> Iterator[str]:
        """What the figures say, in sentences."""
        raise NotImplementedError

    def report(self, page: Page, rows: Rows) -> None:
        """Adds tables and pictures."""
        raise NotImplementedError
