"""The server of a cell, and its counters."""

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.capacity.cells import Cell
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.servers import HOST, Running, metrics, running, total
from loadtests.bench.free_ports import free_ports
from loadtests.bench.mixed.databases import EVERYBODY_WAITS
from loadtests.bench.mixed.stack import Server
from tools.errors import ToolError


@dataclass(frozen=True)
class Seen:
    """What is counted at one moment."""

    at: float
    metrics: str
    used: float
    """CPU seconds of the server."""
    machine: cpu.Machine


@dataclass(frozen=True)
class Replica:
    """A server that answers."""

    server: Running
    admin: str

    def look(self) -> Seen:
        """Its counters, and the machine's."""
        shown, used = metrics(self.admin), self.server.cpu_seconds()
        return Seen(time.monotonic(), shown, used, cpu.Machine.now())


@contextlib.contextmanager
def serving(cell: Cell, programs: Programs, cpus: list[int], folder: Path) -> Iterator[Replica]:
    """Starts it. A lane is pinned to its CPU, the server's other threads are not."""
    settings = ["--lanes", str(cell.lanes), "--pin", "on"]
    settings += ["--limits.slots", str(cell.slots)] if cell.slots else []
    settings += ["--faults", "on"] if any(cell.wait_ms) else []
    file = ["--database.kind", "sqlite", "--database.path", str(folder / "projects.db")]
    database = [*file, *EVERYBODY_WAITS] if cell.projects else []
    server = Server(settings, free_ports(), database)
    # SQLite's writer has its own thread.
    allowed = cpus if cell.projects else cpus[: cell.lanes]
    with running(server, programs, allowed) as process:
        replica = Replica(process, f"{HOST}:{server.admin_port}")
        if any(cell.wait_ms):
            _delay(replica.admin, cell)
        yield replica


def _delay(admin: str, cell: Cell) -> None:
    """Lets every `/work` wait, as for a database."""
    least, more = cell.wait_ms
    latency = {"fixed": f"{least}ms", "jitter": f"{more}ms"}
    fault = {"route": "/work", "share": 1, "latency": latency, "expires_in": "10m"}
    with contextlib.closing(http.client.HTTPConnection(admin, timeout=10)) as connection:
        connection.request("PUT", "/faults", json.dumps({"faults": [fault]}))
        reply = connection.getresponse()
        if reply.status >= 300:
            raise ToolError(f"{admin}/faults: {reply.status} {reply.read().decode()}")


def grown(before: Seen, after: Seen, name: str) -> float:
    """By how much that sum has grown."""
    return total(after.metrics, name) - total(before.metrics, name)


def quiet(before: Seen, after: Seen, generator: float) -> dict[str, float]:
    """Cores that neither the server nor the generator took, and cores that the hypervisor did."""
    wall = after.at - before.at
    ours = after.used - before.used + generator
    others = after.machine.busy - before.machine.busy - ours
    stolen = after.machine.stolen - before.machine.stolen
    return {"others_cores": max(0.0, others) / wall, "stolen_cores": stolen / wall}
