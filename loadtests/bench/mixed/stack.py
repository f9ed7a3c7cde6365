"""What serves a task: the server on its database, and the gateway in front of it."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.servers import HOST, Running, metrics, running
from loadtests.bench.free_ports import free_ports
from loadtests.bench.gateway import proxies, shipped
from loadtests.bench.gateway.proxies import GATEWAY
from loadtests.bench.gateway.shipped import Endpoint
from loadtests.bench.mixed.databases import Database
from local.settings import REPOSITORY
from postgres import home

STATIC = REPOSITORY / "services" / "server" / "static"
PAGE = STATIC / "4k.txt"

TOKEN = "bench-mixed-0123456789abcdef"
"""Lets the users of a benchmark write into its own database; no secret."""

WRITER = "database-writer"
"""The thread of the server that writes to SQLite."""


@dataclass(frozen=True)
class Server:
    """corelane-server with these settings, and with one database."""

    settings: list[str]
    admin_port: int
    database: list[str]
    name: str = "corelane-server"

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        """How it is started."""
        tokens = folder / "tokens"
        tokens.write_text(f"bench sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
        argv = [str(programs.server), "--listen", address, *self.settings, *self.database]
        argv += ["--admin.listen", f"{HOST}:{self.admin_port}", "--static.root", str(STATIC)]
        return [*argv, "--auth.tokens", str(tokens), "--replica", "bench", "--log.level", "warn"]


@dataclass(frozen=True)
class Stack:
    """Everything that runs for a task."""

    server: Running
    gateway: Running | None
    database: Database
    admin: str

    @property
    def address(self) -> str:
        """Where the users go."""
        return (self.gateway or self.server).address

    def metrics(self) -> str:
        """The server's metrics."""
        return metrics(self.admin)

    def cpu_seconds(self) -> dict[str, dict[int, float]]:
        """CPU time of the processes of each part."""
        return {
            "server": _of(self.server),
            "writer": _thread(self.server, WRITER),
            "gateway": _of(self.gateway) if self.gateway else {},
            "database": self.database.cpu_seconds(),
        }


def _thread(process: Running, name: str) -> dict[int, float]:
    """CPU time of the threads of this name (proc_pid_comm(5))."""
    tasks, found = Path(f"/proc/{process.process.pid}/task"), {}
    for thread, used in process.thread_seconds().items():
        # Another thread may have ended since.
        with contextlib.suppress(FileNotFoundError):
            if (tasks / str(thread) / "comm").read_text().strip() == name:
                found[thread] = used
    return found


def _of(process: Running) -> dict[int, float]:
    return {process.process.pid: process.cpu_seconds()}


@contextlib.contextmanager
def stack(
    settings: list[str], database: Database, programs: Programs, cpus: list[int], *, gateway: bool
) -> Iterator[Stack]:
    """Starts it; the parts share all CPUs."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-mixed-", dir=home.ELSEWHERE) as folder,
        contextlib.ExitStack() as parts,
    ):
        server = Server(settings, free_ports(), database.fresh(Path(folder)))
        process = parts.enter_context(running(server, programs, cpus))
        proxy = None
        if gateway:
            pool = [Endpoint(int(process.address.rpartition(":")[2]), server.admin_port)]
            rendered = shipped.configuration(programs.tools, pool)
            proxy = parts.enter_context(running(proxies.envoy(GATEWAY, rendered), programs, cpus))
        yield Stack(process, proxy, database, f"{HOST}:{server.admin_port}")
