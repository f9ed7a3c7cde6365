"""One PostgreSQL: its files, its command line, its address."""

import json
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from postgres import account, home, programs
from postgres.account import Account
from tools import command, resolve
from tools.errors import ToolError

ROLE = "corelane"
"""The role of the service, and the name of its database; it has no other rights."""

SUPERUSER = "postgres"

HBA = "{kind} all all all scram-sha-256\n"
"""Every connection needs a password (pg_hba.conf); there is no Unix socket."""


@dataclass(frozen=True)
class Settings:
    """Its address, its connections, and whether it requires TLS, with which names."""

    port: int
    address: str = "127.0.0.1"
    connections: int = 100
    tls: bool = False
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Instance:
    """A PostgreSQL with initialised data, running or not."""

    folder: Path
    settings: Settings
    home: Path
    account: Account
    programs: programs.Programs

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.home / "data"

    @property
    def password_file(self) -> Path:
        """The password of the role `corelane`."""
        return self.folder / "password"

    @property
    def ca_file(self) -> Path:
        """The authority with which clients verify the certificate."""
        return self.folder / "ca.crt"

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / "postgres.log"

    def url(self, database: str = ROLE) -> str:
        """The service's URL of a database; the password is in a file."""
        mode = "?sslmode=require" if self.settings.tls else ""
        return f"postgres://{ROLE}@{self.settings.address}:{self.settings.port}/{database}{mode}"

    def argv(self) -> list[str]:
        """The command line. Everything that makes a commit durable stays at its default, on."""
        options = {
            "listen_addresses": self.settings.address,
            "port": self.settings.port,
            "max_connections": self.settings.connections,
            "unix_socket_directories": "",
            "hba_file": self.home / "pg_hba.conf",
            # It needs a library of 110 MB that is not unpacked, and does not help these queries.
            "jit": "off",
            "log_line_prefix": "%m [%p] %q%u@%d ",
        }
        if self.settings.tls:
            files = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key"}
            options |= {"ssl": "on", **{key: self.home / file for key, file in files.items()}}
        flags = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        return [str(self.programs["postgres"]), "-D", str(self.data), *flags]

    def psql(self, *arguments: str, database: str = ROLE) -> subprocess.CompletedProcess[str]:
        """Runs psql as the superuser; the caller judges the result."""
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
        """The environment of libpq, for the superuser."""
        tls = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(self.ca_file)}
        return {
            "PGHOST": self.settings.address,
            "PGPORT": str(self.settings.port),
            "PGUSER": SUPERUSER,
            "PGDATABASE": database,
            "PGPASSWORD": _superuser_file(self.folder).read_text(),
            **(tls if self.settings.tls else {}),
        }


def make(folder: Path, settings: Settings) -> Instance:
    """The PostgreSQL of a folder; initialises the data if there are none."""
    folder.mkdir(parents=True, exist_ok=True)
    user = account.choose()
    place = home.place(folder, user)
    home.make(place, user)
    made = Instance(folder.absolute(), settings, place, user, programs.obtain(place, user))
    (place / "pg_hba.conf").write_text(HBA.format(kind="hostssl" if settings.tls else "host"))
    user.own(place / "pg_hba.conf")
    if settings.tls:
        certify(made.folder, place, [*settings.names, "localhost"], settings.address, user)
    if not made.data.exists():
        _initialise(made)
    (folder / "instance.json").write_text(json.dumps(asdict(settings), indent=1))
    return made


def read(folder: Path) -> Instance | None:
    """The existing PostgreSQL of a folder."""
    try:
        settings = Settings(**json.loads((folder / "instance.json").read_text()))
    except FileNotFoundError:
        return None
    user = account.choose()
    place = home.place(folder, user)
    return Instance(folder.absolute(), settings, place, user, programs.obtain(place, user))


def remove(folder: Path) -> None:
    """Removes the data of a folder, wherever they are."""
    home.remove(home.place(folder, account.choose()))


def _superuser_file(folder: Path) -> Path:
    return folder / "superuser-password"


def _initialise(made: Instance) -> None:
    """Makes the data, the role and its database; renames the folder when it is complete."""
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
    # There is nothing to lose yet; PostgreSQL syncs what is saved later.
    options += ["--no-sync"]
    _run(made, ["initdb", "--pgdata", str(fresh), *options])
    password.unlink()
    # Without a server: `postgres --single` reads one statement per line.
    statements = f"CREATE ROLE {ROLE} LOGIN PASSWORD '{made.password_file.read_text()}'\n"
    statements += f"CREATE DATABASE {ROLE} OWNER {ROLE}\n"
    _run(made, ["postgres", "--single", "-D", str(fresh), SUPERUSER], statements)
    fresh.rename(made.data)


def _run(made: Instance, argv: Sequence[str], text: str = "") -> None:
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
    # In single-user mode an error of a statement does not change the exit status.
    if result.returncode != 0 or "ERROR:" in result.stderr:
        raise ToolError(f"{argv[0]} failed: {(result.stderr or result.stdout).strip()}")


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "365")


def certify(folder: Path, home: Path, hosts: Sequence[str], address: str, account: Account) -> None:
    """Writes ca.crt into `folder`, the server's certificate and key into `home`."""
    ca, ca_key = folder / "ca.crt", folder / "ca.key"
    crt, key = home / "server.crt", home / "server.key"
    _request("-subj", "/CN=corelane-postgres", "-out", ca, "-keyout", ca_key)
    names = [*(f"DNS:{host}" for host in hosts), "IP:127.0.0.1", f"IP:{address}"]
    extension = f"subjectAltName={','.join(names)}"
    signed = ("-CA", ca, "-CAkey", ca_key, "-addext", "basicConstraints=critical,CA:FALSE")
    _request("-subj", "/CN=localhost", "-out", crt, "-keyout", key, "-addext", extension, *signed)
    # The authority signs once, so its key is not kept.
    ca_key.unlink()
    for file in (crt, key):
        account.own(file)


def _request(*arguments: object) -> None:
    openssl = resolve.ensure(["openssl"])["openssl"]
    command.output([openssl, "req", "-x509", *KEY, *arguments])
