"""A connection for each request, or the same ones for all: lanes only, since a pool whose workers block
has one worker for each open connection."""

import time

from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.threads.matrix import Cell, Length, Where, sample
from loadtests.bench.threads.shapes import Lanes, Programs, running

SHAPES = (Lanes(1), Lanes(2))
CELLS = (Cell(100, 0), Cell(100, 10_000))
WAYS = ("a connection each", "kept alive")


def measured(
    programs: Programs, shape: Lanes, cell: Cell, way: str, length: Length, cpus: list[int]
) -> dict:
    """One shape under one load, in one of the two ways."""
    where = Where(cpus, cpus)
    if way == WAYS[0]:
        return sample(programs, shape, cell, length, where)
    options = {"connections": cell.connections, "ops": cell.iterations}
    with running(shape, programs, cpus) as process:
        load = Generator(
            programs.generator,
            Place(cpus),
            "closed",
            process.address,
            seconds=length.of(cell.iterations),
            warm_up=length.warm_up,
            **options,
        )
        with load:
            before, begun = process.cpu_seconds(), time.monotonic()
            found = load.measure()
            wall = time.monotonic() - begun
            server = (process.cpu_seconds() - before) / wall
    kept = ("requests", "wrong", "faults", "seconds", "requests_per_second")
    return {
        **{name: found[name] for name in kept},
        "server_cores": server,
        "generator_cores": found["generator_cpu_seconds"] / wall,
    }
