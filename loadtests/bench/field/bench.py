"""What is asked of a run, and what every part of it is given."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from loadtests.bench.experiment.generator import Place
from loadtests.bench.field.contender import Contender
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.field.running import Database, Running, started

ROUNDS = 3
CONNECTIONS = 64
IDLE_CONNECTIONS = 10_000


@dataclass(frozen=True)
class Seconds:
    """How long each measured part takes."""

    closed: float = 0.8
    open: float = 1.3
    mixed: float = 3.0
    projects: float = 1.3
    """Of its open loop."""
    idle: float = 0.5
    """Waited for memory that goes back to the system."""
    warm_up: float = 1.0
    """Share of what a contender wants."""
    settling: float = 6.0
    """Longest that a measurement is made again because code was compiled meanwhile."""


QUICK = Seconds(closed=0.2, open=0.3, mixed=0.8, projects=0.3, idle=0.2, warm_up=0.15, settling=0.5)


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    parts: tuple[str, ...]
    contenders: tuple[str, ...] = ()
    """Only these; empty for all."""
    rounds: int = ROUNDS
    quick: bool = False
    profile: str = "release"
    server: Path | None = None
    """Another build of corelane-server."""
    seed: int = 1

    @property
    def seconds(self) -> Seconds:
        """How long each measured part takes."""
        return QUICK if self.quick else Seconds()


@dataclass(frozen=True)
class Work:
    """What `/work` costs on this machine, found once for a run."""

    ops_per_ms: float

    def ops(self, milliseconds: float) -> int:
        """Iterations that take this long alone."""
        return round(self.ops_per_ms * milliseconds)


@dataclass(frozen=True)
class Bench:
    """What runs, and where."""

    programs: dict[str, Path]
    """Of each chosen contender that is there."""
    generator: Path
    cpus: tuple[int, int]
    """The server's, and that of everything else."""
    profile: str
    folder: Path
    """For files that the load generator reads."""
    work: Work | None = None

    def contenders(self, workload: str | None = None) -> list[Contender]:
        """Those that are there and take the workload, in the order of the report."""
        return [
            contender
            for name, contender in CONTENDERS.items()
            if name in self.programs and (workload is None or workload in contender.workloads)
        ]

    def place(self, first: bool = False) -> Place:
        """The generator's; `first` for an open loop, ahead of every other process."""
        return Place([self.cpus[1]], first)

    def running(
        self,
        contender: Contender,
        *,
        threads: int = 1,
        cpus: Sequence[int] | None = None,
        database: Database | None = None,
    ) -> AbstractContextManager[Running]:
        """Starts it, on the server's CPU and ahead of all others there if nothing else is said, and
        ends it."""
        program = self.programs[contender.name]
        where = cpus or [self.cpus[0]]
        return started(
            contender, program, cpus=where, threads=threads, database=database, ahead=cpus is None
        )

    def without(self, name: str) -> "Bench":
        """The same without a contender that does not run."""
        rest = {known: program for known, program in self.programs.items() if known != name}
        return replace(self, programs=rest)
