"""The databases under the server: an empty one for each measurement."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.free_ports import free_ports
from postgres import home, instance, process
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

    running: instance.Instance
    used: bool = False

    def fresh(self, _folder: Path) -> list[str]:
        """A new database in it."""
        name = instance.ROLE
        if self.used:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")
            self._run(f"CREATE DATABASE {name} OWNER {name}")
            # What is to be written is not the next measurement's.
            self._run("CHECKPOINT")
        self.used = True
        kind = ["--database.kind", "postgres", "--database.url", self.running.url()]
        password = ["--database.password-file", str(self.running.password_file)]
        return [*kind, *password, *EVERYBODY_WAITS]

    def cpu_seconds(self) -> dict[int, float]:
        """Of the postmaster, of its helpers and of those that serve a connection each."""
        found = {}
        for pid in process.family(self.running.folder):
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
    with tempfile.TemporaryDirectory(prefix="bench-mixed-", dir=home.ELSEWHERE) as name:
        folder = Path(name) / "postgres"
        made = instance.make(folder, instance.Settings(free_ports()))
        try:
            process.start(made)
            yield Postgres(made)
        finally:
            process.stop(folder, keep=False)
            instance.remove(folder)


def sync_ms() -> float:
    """The median time of a write and fdatasync(2) of one document's size: the floor of a save."""
    times = []
    with tempfile.TemporaryFile(dir=home.ELSEWHERE, buffering=0) as file:
        for _ in range(SYNCS):
            begun = time.monotonic()
            os.write(file.fileno(), b"x" * BYTES)
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - begun)
    return 1e3 * sorted(times)[SYNCS // 2]
