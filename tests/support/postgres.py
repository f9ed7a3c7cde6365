"""A real PostgreSQL for tests: `database` is a new one on a server that all tests share, `new_postgres` makes servers.

    def test_something(database, start):
        server = start(*database.flags())

What kills or stops its PostgreSQL, or wants TLS, takes a server of its own from `new_postgres`.
"""

import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from postgres import instance, process
from stack import eventually
from stack.ports import free_ports

_numbers = itertools.count()


@dataclass(frozen=True)
class Database:
    """One database of a server; the role `corelane` owns it."""

    server: "Postgres"
    name: str

    @property
    def url(self) -> str:
        """`database.url` of the service."""
        return self.server.instance.url(self.name)

    @property
    def password_file(self) -> Path:
        """`database.password_file` of the service."""
        return self.server.instance.password_file

    def flags(self) -> list[str]:
        """Flags with which `corelane-server` uses this database."""
        files = ["--database.password-file", str(self.password_file)]
        if self.server.instance.settings.tls:
            files += ["--database.ca-file", str(self.server.instance.ca_file)]
        return ["--database.kind", "postgres", "--database.url", self.url, *files]

    def query(self, statement: str) -> list[list[str]]:
        """Runs SQL as the superuser; the rows, each field as text."""
        return self.server.query(statement, self.name)


class Postgres:
    """One PostgreSQL of the test's own."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", **more: Any) -> None:
        settings = instance.Settings(free_ports(1, address), address, **more)
        self.instance = instance.make(folder, settings)
        process.start(self.instance)

    @property
    def pid(self) -> int:
        """The pid of its first process; 0 while it does not run."""
        return process.pid(self.instance.folder)

    def database(self) -> Database:
        """A new, empty database."""
        made = Database(self, f"test_{os.getpid()}_{next(_numbers)}")
        self.query(f"CREATE DATABASE {made.name} OWNER {instance.ROLE}", instance.SUPERUSER)
        return made

    def query(self, statement: str, database: str = instance.ROLE) -> list[list[str]]:
        """Runs SQL as the superuser; the rows, each field as text."""
        flags = ["--tuples-only", "--no-align", "--field-separator=\t", "--set=ON_ERROR_STOP=1"]
        result = self.instance.psql(*flags, "--command", statement, database=database)
        assert result.returncode == 0, result.stderr
        return [line.split("\t") for line in result.stdout.splitlines()]

    def log(self) -> str:
        """What it said so far."""
        return self.instance.log.read_text()

    def kill(self) -> None:
        """SIGKILL for all its processes, and waits for their end."""
        self._stop_first()
        family = process.family(self.instance.folder)
        self._send(family, signal.SIGKILL)
        eventually(lambda: all(_state(pid) in "ZX" for pid in family), "the end of PostgreSQL")

    def freeze(self) -> None:
        """SIGSTOP for all its processes: connections stay open, and nothing is answered."""
        self._stop_first()
        self._stop(process.family(self.instance.folder))

    def thaw(self) -> None:
        """SIGCONT for all its processes."""
        self._send(process.family(self.instance.folder), signal.SIGCONT)

    def start(self) -> None:
        """Starts it again, on its port and with its data."""
        process.start(self.instance)

    def end(self) -> None:
        """Ends it in good order, if it runs; its connections are broken off."""
        self.thaw()
        process.stop(self.instance.folder)

    def remove(self) -> None:
        """Ends it and removes its data."""
        self.thaw()
        process.stop(self.instance.folder, keep=False)
        instance.remove(self.instance.folder)

    def _stop_first(self) -> None:
        """Stops the process that starts all others."""
        self._stop(process.family(self.instance.folder)[:1])

    def _stop(self, pids: list[int]) -> None:
        self._send(pids, signal.SIGSTOP)
        eventually(lambda: all(_state(pid) in "TZX" for pid in pids), "a stop of PostgreSQL")

    def _send(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _state(pid: int) -> str:
    """What a process does, such as T, stopped (proc(5): it follows the name); X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "X"


@pytest.fixture(scope="session")
def new_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Postgres]]:
    """Makes servers that run: new_postgres(tls=True); all of them are removed at the end."""
    made: list[Postgres] = []

    def make(**settings: Any) -> Postgres:
        made.append(Postgres(tmp_path_factory.mktemp("postgres"), **settings))
        return made[-1]

    yield make
    for server in made:
        server.remove()


@pytest.fixture(scope="session")
def postgres(new_postgres: Callable[..., Postgres]) -> Postgres:
    """The server that tests share; they leave it running."""
    return new_postgres()


@pytest.fixture
def database(postgres: Postgres) -> Database:
    """A new database on the server that tests share."""
    return postgres.database()


@contextmanager
def holding(database: Database, statement: str) -> Iterator[None]:
    """Runs a statement in a transaction and keeps that open."""
    instance = database.server.instance
    session = subprocess.Popen(
        [instance.programs["psql"], "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"],
        env={**os.environ, **instance.programs.environment(), **instance.client(database.name)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        session.stdin.write(f"BEGIN; {statement};\n\\echo held\n")
        session.stdin.flush()
        # What the statement itself prints comes first.
        assert any(line == "held\n" for line in session.stdout), f"not held: {statement}"
        yield
    finally:
        # Its transaction is rolled back. Where PostgreSQL was killed, nobody reads any more.
        session.kill()
        session.communicate()
