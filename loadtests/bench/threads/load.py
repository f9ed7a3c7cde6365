"""The load: a closed loop with a connection for each request, and programs next to the server."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from loadtests.bench import cpu
from loadtests.bench.experiment.generator import Generator
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.servers import Running


def visited(process: Running, load: Generator, warm_up: float) -> Row:
    """The generator's figures, and the cores that each side had in the measured part.

    The load continues while the clocks are read: requests that wait belong to it.
    """
    load.tell("")
    load.answer()  # The warm-up is over.
    used, machine, begun = process.cpu_seconds(), cpu.Machine.now(), time.monotonic()
    found = load.answer()
    wall = time.monotonic() - begun
    after = cpu.Machine.now()
    server = (process.cpu_seconds() - used) / wall
    # The generator counts its warm-up too.
    generator = found["generator_cpu_seconds"] / (wall + warm_up)
    rate = found["requests_per_second"] or 0.0
    return {
        **found,
        "requests_per_second": rate,
        "server_cores": server,
        "generator_cores": generator,
        "cpu_us": 1e6 * server / rate if rate else None,
        "others_cores": max(0.0, (after.busy - machine.busy) / wall - server - generator),
        "stolen_cores": (after.stolen - machine.stolen) / wall,
    }


@contextmanager
def computing(count: int) -> Iterator[None]:
    """So many programs that only compute, in the session of the server: the scheduler shares CPUs
    first among sessions where sched_autogroup_enabled is on (sched(7))."""
    processes = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
