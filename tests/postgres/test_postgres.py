"""The PostgreSQL that tests, benchmarks and `make up DATABASE=postgres` use."""

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import PATIENCE, REPOSITORY
from stack import postgres_home as home
from stack.ports import free_ports
from stack.postgres import Database, Postgres, remove

COMMAND = [sys.executable, "hack/postgres.py"]


@pytest.fixture
def command() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs `hack/postgres` on an instance of the test's own, which is down at its end."""
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


def test_each_database_is_empty_and_owned_by_the_role(postgres: Postgres) -> None:
    first, second = postgres.database(), postgres.database()
    first.query("CREATE TABLE t AS SELECT 7 AS seven")
    assert first.query("SELECT seven FROM t") == [["7"]]
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    assert second.query(owner) == [["corelane"]]
    assert second.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [["0"]]


@pytest.fixture(scope="module")
def own(new_postgres: Callable[..., Postgres]) -> Postgres:
    """A PostgreSQL with TLS that a test may kill or freeze; it runs again after each test."""
    return new_postgres(tls=True)


def test_what_was_committed_is_there_after_a_kill(own: Postgres) -> None:
    own.query("CREATE TABLE kept AS SELECT 1 AS one")
    assert own.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == [["t"]]
    own.kill()
    assert own.pid == 0
    own.start()
    assert own.query("SELECT one FROM kept") == [["1"]]
    assert "automatic recovery in progress" in own.log.read_text()
    plain = {**own.client(), "PGSSLMODE": "disable"}
    refused = subprocess.run(
        [own.programs["psql"], "--command", "SELECT 1"],
        env={**own.programs.environment(), **plain},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert "no encryption" in refused.stderr


def test_frozen_it_does_not_answer_until_it_is_thawed(own: Postgres) -> None:
    made = own
    own.freeze()
    process = subprocess.Popen(
        [made.programs["psql"], "--no-psqlrc", "--command", "SELECT 1"],
        env={**made.programs.environment(), **made.client()},
        stdout=subprocess.PIPE,
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    own.thaw()
    output, _ = process.communicate(timeout=PATIENCE)
    assert b"1" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user run PostgreSQL")
def test_programs_and_data_out_of_reach_of_its_user_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = home.account()
    assert not user.reaches(tmp_path)
    place = home.place(tmp_path / "instance", user)
    assert place.parent == Path("/var/tmp")
    # What hack/tools unpacks for root is below /root, which is closed; so is this copy of it.
    installed = home.programs(place, user)
    unpacked = tmp_path / "unpacked"
    folder = unpacked / "usr/lib/postgresql/15/bin"
    folder.mkdir(parents=True)
    (unpacked / "bin").mkdir()
    launcher = unpacked / "bin/postgres"
    launcher.write_text(f'#!/bin/sh\nexec {folder}/postgres "$@"\n')
    (folder / "postgres").write_bytes(installed["postgres"].read_bytes())
    for name in ("initdb", "psql", "postgres"):
        (folder / name).write_bytes(installed[name].read_bytes())
        (folder / name).chmod(0o755)
    monkeypatch.setattr(home.resolve, "tool", lambda _name: launcher)
    home.make(place, user)
    try:
        copied = home.programs(place, user)
        assert copied.folder == place / "programs/usr/lib/postgresql/15/bin"
        for name in ("postgres", "initdb"):
            shown = subprocess.run(
                [copied[name], "--version"],
                cwd=place,
                env=copied.environment(),
                capture_output=True,
                check=True,
                **user.popen(),
            )
            assert b"PostgreSQL" in shown.stdout
    finally:
        remove(tmp_path / "instance")
    assert not place.exists()


def test_a_service_with_a_pool_in_each_lane_runs(database: Database) -> None:
    password = database.password_file.read_text().strip()
    environment = {**os.environ, "DATABASE_URL": database.url, "PGPASSWORD": password}
    cargo = ["cargo", "test", "--locked", "--test", "run"]
    subprocess.run(cargo, cwd=REPOSITORY / "services", env=environment, check=True)
