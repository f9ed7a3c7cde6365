"""The databases under the server: an empty one for each measurement."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from loadtests.bench import cpu
from loadtests.bench.free_ports import free_ports
from postgres import home, instance, process
from tools.errors import ToolError

EVERYBODY_WAITS = ("--database.queue", "1024", "--database.wait", "30s")
"""All users may want the database at once: they wait for it as long as for a reply."""


class Database(Protocol):
    """One that can be emptied."""

    def fresh(self, folder: Path) -> list[str]:
        """Empties it; the settings with which the server uses it."""

    def cpu_seconds(self) -> dict[int, float]:
        """CPU time of each of its processes."""


class Sqlite:
    """A file, in the server's process."""

    def fresh(self, folder: Path) -> list[str]:
        """A new file."""
        kind = ["--database.kind", "sqlite", "--database.path", str(folder / "projects.db")]
        return [*kind, *EVERYBODY_WAITS]

    def cpu_seconds(self) -> dict[int, float]:
        """It has no process of its own."""
        return {}


@dataclass
class Postgres:
    """A PostgreSQL of our own, with the settings that make commits durable at their defaults."""

    running: instance.Instance
    used: bool = False

    def fresh(self, _folder: Path) -> list[str]:
        """A new database in it."""
        name = instance.ROLE
        if self.used:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")
            self._run(f"CREATE DATABASE {name} OWNER {name}")
            self.checkpoint()
        self.used = True
        kind = ["--database.kind", "postgres", "--database.url", self.running.url()]
        return [
            *kind,
            "--database.password-file",
            str(self.running.password_file),
            *EVERYBODY_WAITS,
        ]

    def another(self, name: str) -> str:
        """One more database, empty and beside the others; how it is reached."""
        self._run(f"CREATE DATABASE {name} OWNER {instance.ROLE}")
        return self.running.url(name)

    def checkpoint(self) -> None:
        """Writes what is to be written: it is not the next measurement's."""
        self._run("CHECKPOINT")

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


@dataclass
class Databases:
    """Those that a run uses, each started when it is first asked for."""

    stack: contextlib.ExitStack
    folder: Path
    known: dict[str, Database] = field(default_factory=dict)

    def __getitem__(self, kind: str) -> Database:
        if kind not in self.known:
            self.known[kind] = Sqlite() if kind == "sqlite" else self._postgres()
        return self.known[kind]

    def versions(self) -> dict[str, str]:
        """Of those with a program of their own."""
        served = [found for found in self.known.values() if isinstance(found, Postgres)]
        return {"PostgreSQL": served[0].version()} if served else {}

    def _postgres(self) -> Postgres:
        folder = self.folder / "postgres"
        made = instance.make(folder, instance.Settings(free_ports()))
        self.stack.callback(instance.remove, folder)
        self.stack.callback(process.stop, folder, keep=False)
        process.start(made)
        return Postgres(made)


@contextlib.contextmanager
def databases() -> Iterator[Databases]:
    """Ends them, and removes their data."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-mixed-", dir=home.ELSEWHERE) as folder,
        contextlib.ExitStack() as stack,
    ):
        yield Databases(stack, Path(folder))
