"""The server of the soak: its command, and what it holds at a moment."""

import os
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.servers import CORELANE, HOST, Running
from loadtests.bench.free_ports import free_ports
from local.settings import REPOSITORY

STATIC = REPOSITORY / "services" / "server" / "static"
GAUGES = ("corelane_connections", "corelane_requests_in_flight")

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks the server itself, whatever `http_proxy` says."""


class Soaked:
    """corelane-server with two lanes, and all its defaults."""

    name = CORELANE

    def __init__(self) -> None:
        self.admin = free_ports()

    def argv(self, program: Path, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        argv = [str(program), "--listen", address, "--admin.listen", f"{HOST}:{self.admin}"]
        argv += ["--lanes", "2", "--pin", "off", "--static.root", str(STATIC)]
        return [*argv, "--drain.settle", "0s", "--log.level", "warn"]


@dataclass(frozen=True)
class Watched:
    """The process under load."""

    process: Running
    admin: int

    def sample(self, at: float) -> dict[str, float]:
        """procfs(5) and the metrics, `at` so many seconds after the start of the load."""
        connections, in_flight = map(self.gauge, GAUGES)
        return {
            "at": round(at, 3),
            "memory": 1024 * self.process.resident_kib(),
            "descriptors": self.descriptors(),
            "connections": connections,
            "in_flight": in_flight,
        }

    def ready(self) -> bool:
        """Whether every lane listens."""
        try:
            with DIRECT.open(f"http://{HOST}:{self.admin}/readyz", timeout=20):
                return True
        except OSError:
            return False

    def idle(self) -> bool:
        """Whether no connection is open and no request in flight."""
        return not any(map(self.gauge, GAUGES))

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

    def gauge(self, name: str) -> int:
        """The sum of a gauge over the lanes."""
        with DIRECT.open(f"http://{HOST}:{self.admin}/metrics", timeout=20) as reply:
            lines = reply.read().decode().splitlines()
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{"))
