"""PostgreSQL for tests, benchmarks and `make up DATABASE=postgres`."""

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import REPOSITORY
from stack.ports import free_ports
from stack.postgres import Database, Postgres

COMMAND = [sys.executable, "hack/postgres.py"]


@pytest.fixture
def command() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs `hack/postgres` on a separate instance and stops it at the end."""
    variables = {"INSTANCE": f"test-{os.getpid()}", "POSTGRES_PORT": str(free_ports())}

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **variables, **more}
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    yield run
    run("down")


def test_up_tells_how_it_is_reached_and_down_leaves_nothing(
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    up = command("up")
    assert up.returncode == 0, up.stderr
    told = dict(line.split(maxsplit=1) for line in up.stdout.splitlines() if line[:2] == "  ")
    password = Path(told["password_file"])
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert password.read_text() not in up.stdout
    data = Path(told["process"].rpartition(" data in ")[2])
    again = command("up")
    assert (again.returncode, again.stdout.splitlines()[1:]) == (0, up.stdout.splitlines()[1:])
    assert command("status").returncode == 0
    shown = command("psql", "-At", "-c", "SHOW fsync")
    assert shown.stdout == "on\n", shown.stderr
    down = command("down")
    assert down.returncode == 0, down.stderr
    assert not data.exists()
    assert not password.parent.exists()
    assert command("status").returncode == 1
    assert "No PostgreSQL is up" in command("down").stdout


def test_bad_settings_are_named(command: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    for variable, value in (
        ("POSTGRES_PORT", "many"),
        ("POSTGRES_ADDRESS", "here"),
        ("POSTGRES_TLS", "yes"),
    ):
        result = command("up", **{variable: value})
        assert result.returncode == 1
        assert f"{variable}={value}: " in result.stderr


def test_a_port_in_use_is_named(
    command: Callable[..., subprocess.CompletedProcess[str]], postgres: Postgres
) -> None:
    port = postgres.settings.port
    result = command("up", POSTGRES_PORT=str(port))
    assert result.returncode == 1
    assert f"port {port} for PostgreSQL is in use by postgres (pid {postgres.pid})" in result.stderr


def test_it_runs_without_privileges_in_a_folder_of_its_own(postgres: Postgres) -> None:
    if os.geteuid() == 0:
        assert Path(f"/proc/{postgres.pid}").stat().st_uid == pwd.getpwnam("nobody").pw_uid
    else:
        assert Path(f"/proc/{postgres.pid}").stat().st_uid == os.geteuid()
    assert stat.S_IMODE(postgres.home.stat().st_mode) == 0o700


def test_only_who_has_the_password_gets_in(database: Database) -> None:
    made = database.server
    environment = {**made.programs.environment(), **made.client(database.name)}
    for user, password, accepted in (
        ("corelane", database.password_file.read_text(), True),
        ("corelane", "wrong", False),
        ("postgres", database.password_file.read_text(), False),
    ):
        result = subprocess.run(
            [made.programs["psql"], "--no-psqlrc", "--command", "CREATE TABLE t()"],
            env={**environment, "PGUSER": user, "PGPASSWORD": password},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (result.returncode == 0) is accepted, result.stderr


def test_a_service_with_a_pool_in_each_lane_runs(database: Database) -> None:
    password = database.password_file.read_text().strip()
    environment = {**os.environ, "DATABASE_URL": database.url, "PGPASSWORD": password}
    cargo = ["cargo", "test", "--locked", "--test", "run"]
    subprocess.run(cargo, cwd=REPOSITORY / "services", env=environment, check=True)
