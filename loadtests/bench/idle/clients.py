"""Who holds the connections: processes of the generator, each with addresses of its own."""

import contextlib
from collections.abc import Iterator

from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.idle.arms import Programs
from loadtests.bench.idle.replicas import Replicas
from loadtests.ladder.holders import Holders, Stage
from tools.errors import ToolError

WINDOW = 64
"""So many are being opened at a time: as fast as the server takes them, and no crowd."""


@contextlib.contextmanager
def clients(programs: Programs, replicas: Replicas, processes: int, cpu: int) -> Iterator[Holders]:
    """So many processes, whose connections go to all replicas in turn."""
    to, options = replicas.to, replicas.arm.options(replicas.places[0])
    with contextlib.ExitStack() as parts:
        found = []
        for index in range(processes):
            # Each begins with another server, so that all have as many.
            first = index % len(to)
            addresses = ",".join(to[first:] + to[:first])
            mine = {"from": f"127.0.{1 + index}.1", **options}
            one = Generator(programs.generator, Place([cpu]), "hold", addresses, **mine)
            found.append(parts.enter_context(one))
        told = Holders(found)
        parts.callback(told.close)
        yield told


def opened(held: Holders, connections: int) -> Stage:
    """Opens so many more, each with one request, as fast as they are taken in."""
    stage = held.open(connections, 0.0, ask=True, window=WINDOW)
    if stage.failed:
        raise ToolError(f"{stage.failed:,} of {connections:,} connections failed: {stage.faults}")
    return stage
