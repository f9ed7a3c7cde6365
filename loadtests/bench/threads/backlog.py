"""The accept queue: everyone comes at once to a server whose accept queue is short, or long.

In two network namespaces of the benchmark, because the kernel counts by namespace.
"""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.networks import SERVER, Namespace, Pair, joined
from loadtests.bench.threads.shapes import BACKLOG, ONE, Lanes, Pool, Programs, Shape
from loadtests.bench.threads.visits import Visits
from tools.errors import ToolError

PORT = 8080
PATIENCE = 15.0

SHORT = 128
"""SOMAXCONN of Linux until 5.4, what many programs ask for; listen(2)."""

LINEAR = "net.ipv4.tcp_syn_linear_timeouts"
"""SYNs that are sent again a second apart before the pause doubles: 4 since Linux 6.5, and none before
(Documentation/networking/ip-sysctl.rst)."""

COUNTED = ("TCPSynRetrans", "ListenOverflows", "ListenDrops")


@dataclass(frozen=True)
class Crowd:
    """Who comes: all connections in the same moment, one request on each."""

    connections: int = 400
    iterations: int = 100_000


@dataclass(frozen=True)
class Arm:
    """A shape with an accept queue of this length."""

    shape: Shape
    backlog: int

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.shape.name}, accept queue of {self.backlog:,}"


def arms() -> list[Arm]:
    """One thread and many, with both lengths."""
    return [
        arm
        for backlog in (BACKLOG, SHORT)
        for arm in (
            Arm(Pool(ONE.workers, backlog), backlog),
            Arm(Pool(1, backlog), backlog),
            Arm(Pool(16, backlog), backlog),
            Arm(Lanes(2, backlog=backlog), backlog),
        )
    ]


@dataclass(frozen=True)
class Inside:
    """A place for the generator in the clients' namespace."""

    namespace: Namespace

    def argv(self) -> list[str]:
        """What its command begins with."""
        return self.namespace.inside()


def sample(programs: Programs, arm: Arm, crowd: Crowd) -> dict:
    """The time until the last of the crowd is answered, and what the kernel counted."""
    with joined() as pair, _running(programs, arm, pair) as process:
        load = Visits(
            programs.generator,
            Inside(pair.client),
            f"{SERVER}:{PORT}",
            connections=crowd.connections,
            requests=crowd.connections,
            ops=crowd.iterations,
        )
        with load:
            before = pair.counters()
            found = load.beside(process.pid)
            after = pair.counters()
        linear = pair.client.read(LINEAR)
    kernel = {name: after[name] - before[name] for name in COUNTED}
    return {**found, "kernel": kernel, "linear_timeouts": linear}


@contextmanager
def _running(programs: Programs, arm: Arm, pair: Pair) -> Iterator[subprocess.Popen]:
    """The server in its namespace, with all CPUs."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, tempfile.TemporaryFile() as output:
        argv = arm.shape.argv(programs, f"{SERVER}:{PORT}", Path(name))
        process = subprocess.Popen(
            pair.server.inside(*argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not pair.server.listens(PORT):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise ToolError(f"{arm.name} does not start:\n{output.read().decode()[-2000:]}")
                time.sleep(0.01)
            yield process
        finally:
            process.kill()
            process.wait()
