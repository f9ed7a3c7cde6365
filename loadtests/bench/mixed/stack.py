"""What serves a task: the server on an empty database, and the gateway in front of it."""

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.servers import HOST, Running, metrics, running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import GATEWAY, Endpoint
from local.settings import REPOSITORY
from stack import postgres as server
from stack.ports import free_ports
from stack.postgres_home import ELSEWHERE
from tools.errors import ToolError

EVERYBODY_WAITS = ("--database.queue", "1024", "--database.wait", "30s")
"""All users may want the database at once: they wait for it as long as for a reply."""

SYNCS, BYTES = 100, 6_000


class Sqlite:
    """A file, in the server's process."""

    def fresh(self, folder: Path) -> list[str]:
        """A new file; the settings with which the server uses it."""
        kind = ["--database.kind", "sqlite", "--database.path", str(folder / "projects.db")]
        return [*kind, *EVERYBODY_WAITS]

    def cpu_seconds(self) -> dict[int, float]:
        """It has no process of its own."""
        return {}


@dataclass
class Postgres:
    """A PostgreSQL of the benchmark, with the default settings for durability."""

    running: server.Postgres
    used: bool = False

    def fresh(self, _folder: Path) -> list[str]:
        """A new database in it."""
        name = server.ROLE
        if self.used:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")
            self._run(f"CREATE DATABASE {name} OWNER {name}")
            # What is to be written is not the next measurement's.
            self._run("CHECKPOINT")
        self.used = True
        return [*self.running.flags(), *EVERYBODY_WAITS]

    def cpu_seconds(self) -> dict[int, float]:
        """Of the postmaster, of its helpers and of those that serve a connection each."""
        found = {}
        for pid in self.running.family():
            # A worker of autovacuum may have ended since.
            with contextlib.suppress(ToolError):
                found[pid] = cpu.seconds(pid)
        return found

    def version(self) -> str:
        """What it says of itself."""
        return self._run("SHOW server_version").split()[0]

    def _run(self, statement: str) -> str:
        argv = ("--tuples-only", "--no-align", "-c", statement)
        result = self.running.psql(*argv, database="postgres")
        if result.returncode != 0:
            raise ToolError(f"PostgreSQL: {statement}: {result.stderr.strip()}")
        return result.stdout.strip()


Database = Sqlite | Postgres


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Starts one, and removes it with its data."""
    with tempfile.TemporaryDirectory(prefix="bench-mixed-", dir=ELSEWHERE) as name:
        folder = Path(name) / "postgres"
        made = server.make(folder, server.Settings(free_ports()))
        try:
            made.start()
            yield Postgres(made)
        finally:
            made.remove()


def sync_ms() -> float:
    """The median time of a write and fdatasync(2) of one document's size: the floor of a save."""
    times = []
    with tempfile.TemporaryFile(dir=ELSEWHERE, buffering=0) as file:
        for _ in range(SYNCS):
            begun = time.monotonic()
            os.write(file.fileno(), b"x" * BYTES)
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - begun)
    return 1e3 * sorted(times)[SYNCS // 2]


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
        tempfile.TemporaryDirectory(prefix="bench-mixed-", dir=ELSEWHERE) as folder,
        contextlib.ExitStack() as parts,
    ):
        server = Server(settings, free_ports(), database.fresh(Path(folder)))
        process = parts.enter_context(running(server, programs, cpus))
        proxy = None
        if gateway:
            pool = [Endpoint(int(process.address.rpartition(":")[2]), server.admin_port)]
            rendered = proxies.configuration(programs.tools, pool)
            proxy = parts.enter_context(running(proxies.envoy(GATEWAY, rendered), programs, cpus))
        yield Stack(process, proxy, database, f"{HOST}:{server.admin_port}")
