"""Other programs on the same CPUs: the scheduler shares among threads, so who has more gets more."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from loadtests.bench.threads.matrix import Cell, Length, Where, sample
from loadtests.bench.threads.shapes import ONE, Lanes, Pool, Programs, Shape

SHAPES = (ONE, Pool(2), Pool(16), Lanes(2))
CELL = Cell(20, 1_000_000)

AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
"""Shares are first those of sessions, where this is on (sched(7)); here all are of one session."""


def measured(
    programs: Programs, shape: Shape, neighbours: int, length: Length, cpus: list[int]
) -> dict:
    """A shape beside so many programs that only compute."""
    with _computing(programs.pool, neighbours):
        # The scheduler shares over some of its slices, so this takes as long as the dearest cell.
        longer = replace(length, dear=length.dearest)
        return sample(programs, shape, CELL, longer, Where(cpus, cpus))


@contextmanager
def _computing(pool: Path, count: int) -> Iterator[None]:
    argv = [str(pool), "offline", "--ops", "1000000", "--requests", str(10**12)]
    processes = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, process_group=0))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
