"""A PostgreSQL server: its programs, files, process and databases.

It runs as an unprivileged user, so its data and, if necessary, its programs are in a folder that
this user can enter. It outlives this process: any process that knows its folder can stop it.
"""

import itertools
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from stack import HOST, in_time, pids
from stack import postgres_home as home
from stack.process import LINES, detached
from tools import command, progress, resolve
from tools.errors import ToolError

ROLE = "corelane"
"""The service's role and database name; it has no other rights."""

SUPERUSER = "postgres"

HBA = "{kind} all all all scram-sha-256\n"
"""Every connection needs a password (pg_hba.conf); there is no Unix socket."""


@dataclass(frozen=True)
class Settings:
    """A server's address and connection limit, and the names in its certificate if it requires TLS."""

    port: int
    address: str = HOST
    connections: int = 100
    tls: bool = False
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL with initialised data, running or not."""

    folder: Path
    settings: Settings
    home: Path
    account: home.Account
    programs: home.Programs

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def password_file(self) -> Path:
        return self.folder / "password"

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def url(self, database: str = ROLE) -> str:
        mode = "?sslmode=require" if self.settings.tls else ""
        return f"postgres://{ROLE}@{self.settings.address}:{self.settings.port}/{database}{mode}"

    def flags(self, database: str = ROLE) -> list[str]:
        files = ["--database.password-file", str(self.password_file)]
        if self.settings.tls:
            files += ["--database.ca-file", str(self.ca_file)]
        return ["--database.kind", "postgres", "--database.url", self.url(database), *files]

    def argv(self) -> list[str]:
        """Every setting that makes a commit durable keeps its default, on."""
        options = {
            "listen_addresses": self.settings.address,
            "port": self.settings.port,
            "max_connections": self.settings.connections,
            "unix_socket_directories": "",
            "hba_file": self.home / "pg_hba.conf",
            # JIT needs a 110 MB library that is not unpacked, and it does not speed up these
            # queries.
            "jit": "off",
            "log_line_prefix": "%m [%p] %q%u@%d ",
        }
        if self.settings.tls:
            files = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key"}
            options |= {"ssl": "on", **{key: self.home / file for key, file in files.items()}}
        flags = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        return [str(self.programs["postgres"]), "-D", str(self.data), *flags]

    def psql(self, *arguments: str, database: str = ROLE) -> subprocess.CompletedProcess[str]:
        """Runs as the superuser; the caller checks the result."""
        environment = {**self.programs.environment(), **self.client(database)}
        argv = [self.programs["psql"], "--no-psqlrc", *arguments]
        return subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def client(self, database: str = ROLE) -> dict[str, str]:
        tls = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(self.ca_file)}
        return {
            "PGHOST": self.settings.address,
            "PGPORT": str(self.settings.port),
            "PGUSER": SUPERUSER,
            "PGDATABASE": database,
            "PGPASSWORD": _superuser_file(self.folder).read_text(),
            **(tls if self.settings.tls else {}),
        }

    def query(self, statement: str, database: str = ROLE) -> list[list[str]]:
        """Runs as the superuser; returns rows with each field as text."""
        flags = ["--tuples-only", "--no-align", "--field-separator=\t", "--set=ON_ERROR_STOP=1"]
        result = self.psql(*flags, "--command", statement, database=database)
        if result.returncode != 0:
            raise ToolError(f"{statement}: {result.stderr}")
        return [line.split("\t") for line in result.stdout.splitlines()]

    def database(self) -> "Database":
        made = Database(self, f"test_{os.getpid()}_{next(_numbers)}")
        self.query(f"CREATE DATABASE {made.name} OWNER {ROLE}", SUPERUSER)
        return made

    @property
    def pid(self) -> int:
        """0 while the server is not running."""
        return pid(self.folder)

    def family(self) -> list[int]:
        """The server's pid and its children's; each connection has a child."""
        return [self.pid, *pids.children(self.pid)] if self.pid else []

    def start(self) -> None:
        """Waits until the server accepts connections; after a crash it recovers first."""
        process = detached(
            self.argv(),
            self.log,
            self.programs.environment(),
            cwd=self.home,
            **self.account.popen(),
        )
        record = {"pid": process.pid, "started": pids.started(process.pid)}
        _record(self.folder).write_text(json.dumps(record))
        if not in_time(lambda: process.poll() is not None or self.ready(process.pid), ENDING):
            stop(self.folder)
        if process.poll() is not None:
            said = "\n".join(f"    {line}" for line in progress.tail(self.log, LINES))
            raise ToolError(f"PostgreSQL did not start. End of {self.log}:\n{said}")

    def ready(self, pid: int) -> bool:
        """Reads the same file as pg_ctl (miscadmin.h, LOCK_FILE_LINE_PM_STATUS)."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready" and int(lines[0]) == pid

    def kill(self) -> None:
        """Sends SIGKILL to all of the server's processes and waits until they are gone."""
        self._stop(self.family()[:1])
        self._send(self.family(), signal.SIGKILL, "ZX")

    def freeze(self) -> None:
        """Sends SIGSTOP to all of the server's processes: connections stay open without a response."""
        # The first process starts all other processes, so stop it first.
        self._stop(self.family()[:1])
        self._stop(self.family())

    def thaw(self) -> None:
        pids.kill(self.family(), signal.SIGCONT)

    def end(self) -> None:
        """Shuts down cleanly if the server is running, which closes its connections."""
        self.thaw()
        stop(self.folder)

    def remove(self) -> None:
        self.thaw()
        stop(self.folder, keep=False)
        remove(self.folder)

    def _stop(self, family: Sequence[int]) -> None:
        self._send(family, signal.SIGSTOP, "TZX")

    def _send(self, family: Sequence[int], number: signal.Signals, states: str) -> None:
        pids.kill(family, number)
        if not in_time(lambda: all(pids.state(each) in states for each in family), ENDING):
            raise ToolError(f"PostgreSQL ignored {number.name}: {family}")


ENDING = 30.0
"""Maximum seconds for the server to become ready or to exit."""

_numbers = itertools.count()


@dataclass(frozen=True)
class Database:
    server: Postgres
    name: str

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    @property
    def password_file(self) -> Path:
        return self.server.password_file

    def flags(self) -> list[str]:
        return self.server.flags(self.name)

    def query(self, statement: str) -> list[list[str]]:
        return self.server.query(statement, self.name)


@contextmanager
def holding(database: Database, statement: str) -> Iterator[None]:
    """Runs a statement in a transaction and keeps the transaction open."""
    server = database.server
    session = subprocess.Popen(
        [server.programs["psql"], "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"],
        env={**os.environ, **server.programs.environment(), **server.client(database.name)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        session.stdin.write(f"BEGIN; {statement};\n\\echo held\n")
        session.stdin.flush()
        # The output of the statement itself comes first.
        assert any(line == "held\n" for line in session.stdout), f"not held: {statement}"
        yield
    finally:
        # The server rolls the transaction back. After a kill, no process reads this input.
        session.kill()
        session.communicate()


def make(folder: Path, settings: Settings) -> Postgres:
    """Creates missing data."""
    folder.mkdir(parents=True, exist_ok=True)
    user = home.account()
    place = home.place(folder, user)
    home.make(place, user)
    made = Postgres(folder.absolute(), settings, place, user, home.programs(place, user))
    (place / "pg_hba.conf").write_text(HBA.format(kind="hostssl" if settings.tls else "host"))
    user.own(place / "pg_hba.conf")
    if settings.tls:
        _certify(made, [*settings.names, "localhost"])
    if not made.data.exists():
        _initialise(made)
    (folder / "instance.json").write_text(json.dumps(asdict(settings), indent=1))
    return made


def read(folder: Path) -> Postgres | None:
    try:
        settings = Settings(**json.loads((folder / "instance.json").read_text()))
    except FileNotFoundError:
        return None
    user = home.account()
    place = home.place(folder, user)
    return Postgres(folder.absolute(), settings, place, user, home.programs(place, user))


def pid(folder: Path) -> int:
    """The pid of the PostgreSQL that was started here; 0 if it is not running."""
    try:
        record = json.loads(_record(folder).read_text())
    except FileNotFoundError:
        return 0
    return record["pid"] if pids.alive(record) else 0


def stop(folder: Path, *, keep: bool = True) -> None:
    """Closes connections, and writes a checkpoint if the data are kept."""
    for number in (signal.SIGINT if keep else signal.SIGQUIT, signal.SIGKILL):
        if parent := pid(folder):
            os.kill(parent, number)
        if in_time(lambda: not pid(folder), ENDING):
            _record(folder).unlink(missing_ok=True)
            return
    raise ToolError(f"PostgreSQL (pid {pid(folder)}) does not exit after SIGKILL")


def remove(folder: Path) -> None:
    home.remove(home.place(folder, home.account()))


def _record(folder: Path) -> Path:
    return folder / "process.json"


def _superuser_file(folder: Path) -> Path:
    return folder / "superuser-password"


def _initialise(made: Postgres) -> None:
    """Creates data, role and database, and then gives the complete folder its final name."""
    fresh = made.home / "data.new"
    home.remove(fresh)
    for file in (made.password_file, _superuser_file(made.folder)):
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(24))
    # PostgreSQL's user must read it while initdb runs.
    password = made.home / "superuser-password"
    password.touch(mode=0o600)
    made.account.own(password)
    password.write_text(_superuser_file(made.folder).read_text())
    options = ["--username", SUPERUSER, "--pwfile", str(password), "--auth", "scram-sha-256"]
    options += ["--encoding", "UTF8", "--no-locale", "--data-checksums", "--no-instructions"]
    # Nothing can be lost yet; PostgreSQL syncs later writes.
    options += ["--no-sync"]
    _run(made, ["initdb", "--pgdata", str(fresh), *options])
    password.unlink()
    # No server is running yet: `postgres --single` reads one statement per line.
    statements = f"CREATE ROLE {ROLE} LOGIN PASSWORD '{made.password_file.read_text()}'\n"
    statements += f"CREATE DATABASE {ROLE} OWNER {ROLE}\n"
    _run(made, ["postgres", "--single", "-D", str(fresh), SUPERUSER], statements)
    fresh.rename(made.data)


def _run(made: Postgres, argv: Sequence[str], text: str = "") -> None:
    """Runs a program as PostgreSQL's user; an error shows its output."""
    result = subprocess.run(
        [made.programs[argv[0]], *argv[1:]],
        cwd=made.home,
        env=made.programs.environment(),
        input=text,
        capture_output=True,
        text=True,
        check=False,
        **made.account.popen(),
    )
    # In single-user mode, a failed statement does not change the exit status.
    if result.returncode != 0 or "ERROR:" in result.stderr:
        raise ToolError(f"{argv[0]} failed: {(result.stderr or result.stdout).strip()}")


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "365")


def _certify(made: Postgres, hosts: Sequence[str]) -> None:
    ca, ca_key = made.ca_file, made.folder / "ca.key"
    crt, key = made.home / "server.crt", made.home / "server.key"
    _request("-subj", "/CN=corelane-postgres", "-out", ca, "-keyout", ca_key)
    names = [*(f"DNS:{host}" for host in hosts), f"IP:{HOST}", f"IP:{made.settings.address}"]
    extension = f"subjectAltName={','.join(names)}"
    signed = ("-CA", ca, "-CAkey", ca_key, "-addext", "basicConstraints=critical,CA:FALSE")
    _request("-subj", "/CN=localhost", "-out", crt, "-keyout", key, "-addext", extension, *signed)
    # The authority signs only one certificate, so its key is not kept.
    ca_key.unlink()
    for file in (crt, key):
        made.account.own(file)


def _request(*arguments: object) -> None:
    openssl = resolve.tool("openssl")
    command.output([openssl, "req", "-x509", *KEY, *arguments])
