"""Connecting to PostgreSQL: TLS, passwords and choice of host."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stack import eventually
from stack.postgres import Database, Postgres
from stack.replica import Server
from support.projects import connected, database_line, lists
from tools.resolve import tool


@pytest.fixture(scope="module")
def own(new_postgres: Callable[..., Postgres]) -> Postgres:
    """A PostgreSQL that requires TLS. Tests may change its certificate."""
    return new_postgres(tls=True)


@pytest.fixture
def database(own: Postgres) -> Database:
    return own.database()


def flags(
    database: Database, options: str, *, host: str = "", authority: Path | None = None
) -> list[object]:
    """Returns the server's flags, with these options in the database URL."""
    url = database.url.partition("?")[0].replace("127.0.0.1", host or "127.0.0.1") + options
    kind = ["--database.kind", "postgres", "--database.url", url]
    files = ["--database.password-file", database.password_file]
    return [*kind, *files, *(["--database.ca-file", authority] if authority else [])]


def encrypted(database: Database) -> set[str]:
    rows = database.query(
        "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
        f" WHERE datname = '{database.name}' AND usename = 'corelane'"
    )
    return {row[0] for row in rows}


@pytest.mark.parametrize(
    "options", ["", "?sslmode=prefer", "?sslmode=require", "?channel_binding=require"]
)
@pytest.mark.parametrize("verified", [True, False], ids=["authority", "any"])
def test_connections_are_encrypted(
    own: Postgres, database: Database, start: Callable[..., Server], options: str, verified: bool
) -> None:
    authority = own.ca_file if verified else None
    server = start(*flags(database, options, authority=authority))
    connected(server)
    assert lists(server) == 200
    assert encrypted(database) == {"t"}


def test_without_tls_such_a_server_cannot_be_used(
    database: Database, start: Callable[..., Server]
) -> None:
    server = start(*flags(database, "?sslmode=disable"))
    eventually(lambda: "no encryption" in database_line(server))
    assert lists(server) == 503


def test_tls_is_not_given_up(postgres: Postgres, start: Callable[..., Server]) -> None:
    plain = postgres.database()
    server = start(*flags(plain, "?sslmode=require"))
    eventually(lambda: "does not support TLS" in database_line(server))
    assert lists(server) == 503


def signed(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """A new CA and a certificate for this host name."""
    ca, ca_key, crt, key = (folder / f"{name}-{each}" for each in ("ca", "ca-key", "crt", "key"))
    new = [tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    new += ["-noenc", "-days", "2"]
    subprocess.run(
        [*new, "-subj", "/CN=test", "-out", ca, "-keyout", ca_key], check=True, capture_output=True
    )
    leaf = ["-subj", "/CN=test", "-addext", f"subjectAltName=DNS:{name}", "-addext"]
    leaf += ["basicConstraints=critical,CA:FALSE", "-CA", ca, "-CAkey", ca_key]
    subprocess.run([*new, *leaf, "-out", crt, "-keyout", key], check=True, capture_output=True)
    return ca, crt, key


def test_another_authority_is_not_trusted(
    database: Database, start: Callable[..., Server], tmp_path: Path
) -> None:
    other, *_ = signed(tmp_path, "localhost")
    server = start(*flags(database, "", authority=other))
    eventually(lambda: "certificate" in database_line(server))
    assert lists(server) == 503
    assert encrypted(database) == set()


def test_a_certificate_without_the_host_is_not_trusted(
    own: Postgres, database: Database, start: Callable[..., Server], tmp_path: Path
) -> None:
    authority, crt, key = signed(tmp_path, "other.test")
    home = own.home
    kept = {name: (home / name).read_bytes() for name in ("server.crt", "server.key")}
    (home / "server.crt").write_bytes(crt.read_bytes())
    (home / "server.key").write_bytes(key.read_bytes())
    os.kill(own.pid, signal.SIGHUP)
    try:
        server = start(*flags(database, "", host="localhost", authority=authority))
        eventually(lambda: "not valid for name" in database_line(server))
        assert lists(server) == 503
    finally:
        for name, data in kept.items():
            (home / name).write_bytes(data)
        os.kill(own.pid, signal.SIGHUP)
        eventually(lambda: own.psql("-c", "SELECT 1").returncode == 0)


def test_a_rotated_password_is_taken_into_use(
    own: Postgres, database: Database, start: Callable[..., Server], tmp_path: Path
) -> None:
    password = database.password_file.read_text()
    copy = tmp_path / "password"
    # The file ends with a newline, as `echo` writes it.
    copy.write_text(password + "\n")
    url = ["--database.kind", "postgres", "--database.url", database.url]
    # With more connections, another one could open with the old password.
    one = ("--lanes", "1", "--database.connections", "1")
    server = start(*url, "--database.password-file", copy, *one)
    connected(server)
    try:
        own.query("ALTER ROLE corelane PASSWORD 'rotated'")
        end_sessions(database)
        eventually(lambda: "password authentication failed" in database_line(server))
        copy.write_text("rotated\n")
        connected(server)
        assert lists(server) == 200
        copy.unlink()
        end_sessions(database)
        eventually(lambda: "database.password_file" in database_line(server))
    finally:
        own.query(f"ALTER ROLE corelane PASSWORD '{password}'")


def end_sessions(database: Database) -> None:
    database.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE datname = '{database.name}' AND usename = 'corelane'"
    )
