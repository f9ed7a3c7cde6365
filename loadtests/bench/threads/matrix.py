"""The matrix: every shape with every number of connections and of iterations."""

import itertools
from dataclasses import dataclass

from loadtests.bench.experiment.generator import Place
from loadtests.bench.threads.shapes import Programs, Shape, running
from loadtests.bench.threads.visits import Visits

CONNECTIONS = (1, 20, 100, 1_000)
ITERATIONS = (0, 10_000, 100_000, 1_000_000, 5_000_000)

DEAR = 1_000_000
"""From so many iterations on a request takes milliseconds, and a short run has too few of them."""


@dataclass(frozen=True)
class Length:
    """How long one cell is measured, in seconds: of brief requests, and of the dearest."""

    brief: float = 0.15
    dear: float = 0.3
    dearest: float = 0.5
    warm_up: float = 0.06

    def of(self, iterations: int) -> float:
        """The measured part with requests of so many iterations."""
        if iterations < DEAR:
            return self.brief
        return self.dear if iterations == DEAR else self.dearest


@dataclass(frozen=True)
class Where:
    """The CPUs of the server and those of the generator."""

    server: list[int]
    generator: list[int]


@dataclass(frozen=True)
class Cell:
    """One load."""

    connections: int
    iterations: int

    @property
    def name(self) -> str:
        """Its name in the record."""
        return f"{self.connections} x {self.iterations}"


def cells(connections: tuple[int, ...], iterations: tuple[int, ...]) -> list[Cell]:
    """All of these."""
    return [Cell(*pair) for pair in itertools.product(connections, iterations)]


def sample(programs: Programs, shape: Shape, cell: Cell, length: Length, where: Where) -> dict:
    """One shape under one load. It is started anew: what is queued when the time is over would delay
    the next load by seconds."""
    with running(shape, programs, where.server) as process:
        load = Visits(
            programs.generator,
            Place(where.generator),
            process.address,
            connections=cell.connections,
            ops=cell.iterations,
            seconds=length.of(cell.iterations),
            warm_up=length.warm_up,
        )
        with load:
            return load.beside(process.process.pid)
