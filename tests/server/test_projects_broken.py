"""Projects with an unusable file: immediate 503, reported, and automatic recovery."""

import json
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stack import eventually
from stack.http import Reply, ask
from stack.replica import Server
from support.projects import Database, Projects, path, problem

# Exceeding the file size limit then fails without a signal (setrlimit(2)).
WITHOUT_SIGNAL = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"]

# The capability lets root write read-only files (capabilities(7)).
WITHOUT_OVERRIDE = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []


def keeps_override() -> bool:
    """Dropping the capability requires CAP_SETPCAP."""
    tried = subprocess.run([*WITHOUT_OVERRIDE, "true"], check=False, capture_output=True)
    return tried.returncode != 0


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Does not exist yet."""
    return Database(tmp_path)


def save(server: Server, name: str = "n") -> Reply:
    return Projects(server.url).ask("/projects", "POST", {"name": name})


def state(server: Server) -> str:
    """Returns the readiness page. The server is always ready."""
    reply = ask(server.admin, "/readyz")
    assert reply.status == 200
    return reply.body.decode()


def is_down(server: Server) -> bool:
    return "database: down" in state(server)


def assert_unavailable(reply: Reply) -> None:
    problem(reply, 503, "database-unavailable")
    assert int(reply.headers["retry-after"]) > 0


def log_of(server: Server) -> str:
    server.terminate()
    code, log = server.end()
    assert code == 0, log
    return log


def test_a_full_disk_stops_writes_alone(start: Callable[..., Server], database: Database) -> None:
    flags = [*database.flags(), "--lanes", "1", "--drain.settle", "0s"]
    server = start(*flags, within=WITHOUT_SIGNAL)
    kept = json.loads(save(server).body)
    assert ask(server.url, path(kept)).status == 200
    size = Path(f"{database.path}-wal").stat().st_size
    unlimited = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, unlimited[1]))
    for _ in range(3):
        assert_unavailable(save(server))
    assert is_down(server)
    assert server.metrics()['corelane_dependency_up{dependency="database"}'] == 0
    assert ask(server.url, path(kept)).status == 200
    assert ask(server.url, "/hello").status == 200
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
    eventually(lambda: not is_down(server))
    assert save(server).status == 201
    assert len(database.rows()) == 2
    log = log_of(server)
    assert log.count("a dependency is down") == 1, log
    assert log.count("a dependency is up again") == 1, log


def test_a_file_that_is_taken_away_is_noticed_before_anything_is_lost(
    start: Callable[..., Server], database: Database
) -> None:
    server = start(*database.flags())
    kept = json.loads(save(server).body)
    away = database.folder / "away"
    away.mkdir()
    # Prevents the server from noticing a partial move.
    server.freeze()
    for file in database.folder.glob("projects.db*"):
        file.rename(away / file.name)
    server.thaw()
    assert_unavailable(save(server))
    assert_unavailable(ask(server.url, path(kept)))
    assert not database.path.exists(), "an empty database took the place of the lost one"
    assert is_down(server)
    # Move the database back last, because the server creates no log without it.
    for file in sorted(away.iterdir(), reverse=True):
        file.rename(database.folder / file.name)
    eventually(lambda: not is_down(server))
    assert ask(server.url, path(kept)).status == 200
    assert save(server).status == 201


def test_an_idle_server_notices_that_its_file_is_gone(
    start: Callable[..., Server], database: Database
) -> None:
    server = start(*database.flags())
    database.path.unlink()
    eventually(lambda: is_down(server))
    assert str(database.path) in state(server)


def test_a_folder_that_is_not_there_yet_may_come(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    late = Database(tmp_path)
    flags = late.flags()
    flags[1] = str(tmp_path / "volume/projects.db")
    server = start(*flags)
    assert_unavailable(ask(server.url, "/projects"))
    assert_unavailable(save(server))
    assert "unable to open database file" in state(server)
    (tmp_path / "volume").mkdir()
    eventually(lambda: not is_down(server))
    assert save(server).status == 201
    assert len(Projects(server.url).page()["projects"]) == 1


def test_what_may_only_be_read_is_told(start: Callable[..., Server], database: Database) -> None:
    """In WAL mode even readers need the log (sqlite.org/wal.html)."""
    if keeps_override():
        pytest.skip("root may not give up CAP_DAC_OVERRIDE here: setpriv needs CAP_SETPCAP")
    settle = ("--drain.settle", "0s")
    server = start(*database.flags(), *settle)
    kept = json.loads(save(server).body)
    log_of(server)
    flags = database.flags()
    database.path.chmod(0o444)
    database.folder.chmod(0o555)
    server = start(*flags, within=WITHOUT_OVERRIDE)
    assert_unavailable(save(server))
    assert_unavailable(ask(server.url, path(kept)))
    assert ask(server.url, "/hello").status == 200
    assert is_down(server)
    database.folder.chmod(0o755)
    database.path.chmod(0o644)
    eventually(lambda: not is_down(server))
    assert ask(server.url, path(kept)).status == 200
    assert save(server).status == 201


# Damaged files are rechecked every 10 s.
@pytest.mark.parametrize("repaired", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_damage_is_told_and_other_pages_are_served(
    start: Callable[..., Server], database: Database, repaired: bool
) -> None:
    """Overwrites all pages with documents, but not the id index."""
    server = start(*database.flags(), "--drain.settle", "0s")
    lost = json.loads(save(server, "lost " + "x" * 190).body)
    log_of(server)
    sound = database.path.read_bytes()
    page = sound.index(b"lost ") // 4096
    database.path.write_bytes(sound[: page * 4096] + b"\xee" * 4096 + sound[(page + 1) * 4096 :])
    server = start(*database.flags(), "--drain.settle", "0s")
    assert_unavailable(ask(server.url, path(lost)))
    assert is_down(server)
    # The writer has checked and is not fooled by a valid header.
    eventually(lambda: "the file is damaged" in state(server))
    assert ask(server.url, "/hello").status == 200
    if repaired:
        with database.path.open("r+b") as file:
            file.write(sound)
        eventually(lambda: not is_down(server))
        assert ask(server.url, path(lost)).status == 200
    log = log_of(server)
    assert log.count("a dependency is down") == 1, log
    assert log.count("a dependency is up again") == repaired, log


def test_a_file_that_is_no_database_is_told(
    start: Callable[..., Server], database: Database
) -> None:
    database.path.write_text("no database, " * 1000)
    server = start(*database.flags())
    assert_unavailable(ask(server.url, "/projects"))
    assert_unavailable(save(server))
    assert "not a database" in state(server)
    assert database.path.read_text() == "no database, " * 1000
