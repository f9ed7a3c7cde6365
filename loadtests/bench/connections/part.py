"""What a part of the benchmark fills in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.connections.rows import Rows
from loadtests.bench.connections.servers import Pem, Programs
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.measurement import Work
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Plan, Row, Stand

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

    def decided(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        """Whether more rounds would say nothing new."""
        return False

    def brief(self, row: Row) -> str:
        """A short summary of a row."""
        raise NotImplementedError

    def reading(self, rows: Rows) -> Iterator[str]:
        """What the figures say, in sentences."""
        raise NotImplementedError

    def report(self, page: Page, rows: Rows) -> None:
        """Adds tables and pictures."""
        raise NotImplementedError
