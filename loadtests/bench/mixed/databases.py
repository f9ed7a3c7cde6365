"""Databases of projects, and a replica that uses one."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.experiment.servers import STATIC, Replica
from stack import postgres as server
from stack.ports import free_ports
from stack.postgres_home import ELSEWHERE

EVERYBODY_WAITS = ("--database.queue", "1024", "--database.wait", "30s")
"""All users may need the database at once, so the wait for it may be as long as the wait for a
response.
"""

TOKEN = "bench-mixed-0123456789abcdef"
"""Lets a benchmark's users write to its own database. The token is not secret."""


class Sqlite:
    def fresh(self, folder: Path) -> list[str]:
        """Creates a new file and returns the server settings for it."""
        return ["--database.kind", "sqlite", "--database.path", str(folder / "projects.db")]

    def cpu_seconds(self) -> float:
        """Returns 0, because SQLite has no process."""
        return 0.0


class Postgres:
    def __init__(self, running: server.Postgres) -> None:
        self._running = running
        self.cpu_seconds = cpu.Family(running.family).seconds

    def fresh(self, _folder: Path) -> list[str]:
        # Finish pending writes, which would otherwise disturb the next measurement.
        self._running.query("CHECKPOINT", server.SUPERUSER)
        return self._running.database().flags()

    def version(self) -> str:
        return self._running.query("SHOW server_version", server.SUPERUSER)[0][0].split()[0]


Database = Sqlite | Postgres


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="bench-mixed-", dir=ELSEWHERE) as name:
        made = server.make(Path(name) / "postgres", server.Settings(free_ports()))
        try:
            made.start()
            yield Postgres(made)
        finally:
            made.remove()


def replica(database: Database, folder: Path, flags: tuple[str, ...], **more: object) -> Replica:
    """corelane-server with an empty database, and the settings that its users need."""
    tokens = folder / "tokens"
    tokens.write_text(f"bench sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    own = ("--static.root", str(STATIC), "--auth.tokens", str(tokens))
    return Replica((*flags, *own, *database.fresh(folder), *EVERYBODY_WAITS), **more)
