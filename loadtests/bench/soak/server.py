"""The server of the soak: its command, and what it holds at a moment."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.servers import CORELANE, HOST, Running, ask, metrics, total
from loadtests.bench.free_ports import free_ports
from local.settings import REPOSITORY

STATIC = REPOSITORY / "services" / "server" / "static"
GAUGES = ("corelane_connections", "corelane_requests_in_flight")


class Soaked:
    """corelane-server with two lanes, and all its defaults."""

    name = CORELANE

    def __init__(self) -> None:
        self.admin = f"{HOST}:{free_ports()}"

    def argv(self, program: Path, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        argv = [str(program), "--listen", address, "--admin.listen", self.admin]
        argv += ["--lanes", "2", "--pin", "off", "--static.root", str(STATIC)]
        return [*argv, "--drain.settle", "0s", "--log.level", "warn"]


@dataclass(frozen=True)
class Watched:
    """The process under load."""

    process: Running
    admin: str

    def sample(self, at: float) -> dict[str, float]:
        """procfs(5) and the metrics, `at` so many seconds after the start of the load."""
        connections, in_flight = self._gauges()
        return {
            "at": round(at, 3),
            "memory": 1024 * self.process.resident_kib(),
            "descriptors": self.descriptors(),
            "connections": connections,
            "in_flight": in_flight,
        }

    def ready(self) -> bool:
        """Whether every lane listens."""
        return ask(self.admin, "/readyz")[0] == 200

    def idle(self) -> bool:
        """Whether no connection is open and no request in flight."""
        return not any(self._gauges())

    def descriptors(self) -> int:
        """Open files, sockets included."""
        return len(os.listdir(f"/proc/{self.process.process.pid}/fd"))

    def least_descriptors(self) -> int:
        """The least of a second: the connection of a probe is still open for a moment."""
        least = self.descriptors()
        for _ in range(20):
            time.sleep(0.05)
            least = min(least, self.descriptors())
        return least

    def _gauges(self) -> list[int]:
        shown = metrics(self.admin)
        return [int(total(shown, name)) for name in GAUGES]
