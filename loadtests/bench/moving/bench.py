"""What every part of the benchmark needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.measurement import Work

WORK_MS = 0.2
"""Of the handler that keeps a lane busy."""

Sample = dict


@dataclass(frozen=True)
class Programs:
    """Where everything that runs is."""

    server: Path
    generator: Path
    tools: dict[str, Path]
    """envoy and what renders its configuration; empty without the gateway."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int = 5
    seconds: float = 1.5
    """Of each measured load."""
    warm_up: float = 2.0
    """The same load before it, in which connections move to where they stay; none moves in its first second."""
    few_rounds: int = 3
    """Of Envoy, and of many connections."""
    cycles: int = 4
    """Of rest and waking, for each setting in each round; even, so that each round begins where the last did."""
    resting: int = 2000
    """Connections that rest and wake."""
    looks: tuple[int, ...] = (20, 40, 60)
    """Rounds of busy connections after which the verdict is asked for; more follow while it is undecided."""
    turns: int = 2
    """Times that each of them has four slices in a round."""
    slice_seconds: float = 0.03
    """Of each slice: the shorter, the more alike is what the machine does in it and in the next."""
    many: int = 10_000
    """Connections that ask once in a while."""


FULL = Size()
QUICK = Size(
    rounds=1,
    seconds=1.0,
    warm_up=1.8,
    few_rounds=1,
    cycles=2,
    resting=1000,
    looks=(6,),
    many=4000,
)


@dataclass(frozen=True)
class Bench:
    """The programs, the two CPUs, and how much."""

    programs: Programs
    cpus: tuple[int, int]
    size: Size
    work: Work

    @property
    def ops(self) -> int:
        """Iterations of the handler that keeps a lane busy."""
        return self.work.ops(WORK_MS)

    def generator(self, mode: str, to: str, *, first: bool = True, **options: object) -> Generator:
        """On both CPUs, as the lanes are; ahead of them, or it could not send when a request is due."""
        place = Place(list(self.cpus), first=first)
        return Generator(self.programs.generator, place, mode, to, **options)

    def beside(self, mode: str, to: str, **options: object) -> Generator:
        """On the second CPU alone."""
        return Generator(self.programs.generator, Place([self.cpus[1]]), mode, to, **options)


def in_turn(arms: Sequence, number: int) -> list:
    """Another order in each round, so that none is always the first."""
    first = number % len(arms)
    return [*arms[first:], *arms[:first]]


def others(result: Sample) -> dict[str, float]:
    """What the rest of the machine did meanwhile."""
    return {name: result[name] for name in ("others_cores", "stolen_cores")}
