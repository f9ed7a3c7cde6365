"""corelane-server with its settings of parking and moving, and what it counts meanwhile."""

import http.client
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadtests.bench import cpu
from loadtests.bench.experiment import servers
from loadtests.bench.experiment.servers import HOST, Running
from loadtests.bench.free_ports import free_ports
from tools.errors import ToolError

OFF = "off"
PARKED_ONLY = "parked-only"
ACTIVE = "active"

SHORT_PARK = "100ms"
"""The shortest that the server takes."""

MOVES = "corelane_connection_moves_total"
RETURNS = "corelane_connection_returns_total"
PLANS = "corelane_moving_plans_total"
OUTCOMES = ("helped", "futile", "no_help")
PARKINGS = "corelane_connection_parkings_total"
PARKED = "corelane_connections_parked"


@dataclass(frozen=True)
class Arm:
    """One way to set the server."""

    name: str
    """For people."""
    moving: str = OFF
    park_after: str = "off"
    placement: str = ""
    """Empty for the server's default."""
    plain: bool = True
    """Whether plain requests are served without hyper."""

    @property
    def parks(self) -> bool:
        """Whether connections rest without a lane's state."""
        return self.park_after != "off"

    def flags(self) -> list[str]:
        """Of the command line."""
        flags = ["--moving", self.moving, "--park-after", self.park_after]
        return flags if self.plain else [*flags, "--plain-requests", "off"]


@dataclass(frozen=True)
class Replica:
    """A server under measurement."""

    arm: Arm
    lanes: int = 2
    more: tuple[str, ...] = ()
    """Other flags."""
    pin: bool = True
    """Whether each lane has a CPU of its own."""
    admin_port: int = field(default_factory=free_ports)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"corelane-server, {self.arm.name}"

    def argv(self, programs: Any, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        argv = servers.corelane(
            programs.server,
            address,
            self.lanes,
            self.arm.placement,
            self.admin_port,
            pin=self.pin,
        )
        return [*argv, *self.arm.flags(), *self.more]


@dataclass(frozen=True)
class Seen:
    """Counters of a server at one moment."""

    series: dict[str, float]
    lanes_seconds: float
    """CPU time of the lanes, and of whoever moves connections between them."""

    def total(self, name: str, label: str = "") -> float:
        """The sum of a family's series that have this label."""
        return total(self.series, name, label)


@dataclass(frozen=True)
class Server:
    """A replica that answers."""

    process: Running
    admin_port: int

    @property
    def address(self) -> str:
        """Where it serves."""
        return self.process.address

    def look(self) -> Seen:
        """What it has counted so far."""
        series = self.series()
        return Seen(series, self.lanes_seconds())

    def series(self) -> dict[str, float]:
        """Every series of its metrics."""
        connection = http.client.HTTPConnection(HOST, self.admin_port, timeout=servers.PATIENCE)
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        except (OSError, http.client.HTTPException) as error:
            raise ToolError(f"the server shows no metrics: {error!r}") from None
        finally:
            connection.close()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {series: float(value) for series, value in pairs}

    def wait_for_parked(self, count: int) -> None:
        """Waits until so many connections are parked."""
        deadline = time.monotonic() + servers.PATIENCE
        while (parked := total(self.series(), PARKED)) < count:
            if time.monotonic() > deadline:
                raise ToolError(f"{parked:.0f} of {count} connections are parked")
            time.sleep(0.1)

    def lanes_seconds(self) -> float:
        """CPU time of the lanes and of the mover; the admin thread's is ours, who look."""
        pid = self.process.process.pid
        names = {
            int(task.name): (task / "comm").read_text().strip()
            for task in Path(f"/proc/{pid}/task").iterdir()
        }
        return sum(
            used
            for thread, used in cpu.threads(pid).items()
            if names.get(thread, "").startswith(("lane-", "mover"))
        )


def total(series: dict[str, float], name: str, label: str = "") -> float:
    """The sum of a family's series that have this label."""
    return sum(
        value for key, value in series.items() if key.partition("{")[0] == name and label in key
    )


@contextmanager
def serving(replica: Replica, programs: Any, cpus: list[int]) -> Iterator[Server]:
    """Starts a replica on these CPUs alone, and kills it at the end."""
    with servers.running(replica, programs, cpus) as process:
        yield Server(process, replica.admin_port)


def moves(before: Seen, after: Seen) -> int:
    """Connections that left their lane meanwhile."""
    return round(after.total(MOVES) - before.total(MOVES))
