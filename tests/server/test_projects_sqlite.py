"""Projects in SQLite: group commits, waiting, errors and shutdown."""

import fcntl
import hashlib
import http.client
import json
import random
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stack import PATIENCE, becomes, eventually
from stack.http import Reply, ask
from stack.replica import Server
from support.projects import PATIENT, Database, Projects, key, path, problem


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Does not exist yet."""
    return Database(tmp_path)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def save(server: Server, name: str = "n") -> Reply:
    return Projects(server.url).ask("/projects", "POST", {"name": name})


def metric(server: Server, name: str, **labels: str) -> float:
    """Returns a metric, or 0 before it has a value."""
    inner = ",".join(f'{label}="{value}"' for label, value in labels.items())
    series = f"corelane_database_{name}" + (f"{{{inner}}}" if inner else "")
    return server.metrics().get(series, 0)


def queued(server: Server) -> float:
    return metric(server, "queue_length")


def test_saves_that_wait_are_committed_together(
    start: Callable[..., Server], database: Database, pool: ThreadPoolExecutor
) -> None:
    server = start(*database.flags(), *PATIENT)
    assert save(server).status == 201
    before = metric(server, "commits_total", result="done")
    with database.locked():
        saves = [pool.submit(save, server, str(n)) for n in range(30)]
        eventually(lambda: queued(server) == 30)
        assert not any(future.done() for future in saves), "a save was answered before its commit"
    assert [future.result().status for future in saves] == [201] * 30
    # The first save keeps the transaction open; some saves may arrive after it.
    assert metric(server, "commits_total", result="done") - before <= 2
    assert metric(server, "saves_per_commit_sum") == 31
    assert metric(server, "operations_total", operation="create", result="done") == 31
    assert queued(server) == 0
    assert sorted(row["name"] for row in database.rows().values()) == sorted(
        ["n", *(str(n) for n in range(30))]
    )


def test_one_that_fails_in_a_group_fails_alone(
    start: Callable[..., Server], database: Database, pool: ThreadPoolExecutor
) -> None:
    server = start(*database.flags(), *PATIENT)
    connection = database.connect()
    connection.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON projects WHEN new.document LIKE '%odd%' "
        "BEGIN SELECT raise(ABORT, 'odd'); END"
    )
    connection.close()
    names = ["even", "odd", "even", "odd", "even"]
    with database.locked():
        saves = []
        for count, name in enumerate(names, 1):
            saves.append(pool.submit(save, server, name))
            eventually(lambda count=count: queued(server) == count)
    assert [future.result().status for future in saves] == [201, 500, 201, 500, 201]
    assert "odd" not in str(problem(saves[1].result(), 500, "internal-server-error"))
    assert len(database.rows()) == 3


def test_a_full_queue_is_503(
    start: Callable[..., Server], database: Database, pool: ThreadPoolExecutor
) -> None:
    server = start(*database.flags(), *PATIENT, "--lanes", "1", "--database.queue", "2")
    kept = json.loads(save(server).body)
    with database.locked():
        saves = [pool.submit(save, server) for _ in range(2)]
        eventually(lambda: queued(server) == 2)
        full = save(server)
        problem(full, 503, "overloaded")
        assert int(full.headers["retry-after"]) > 0
        # Readers never wait for writers.
        assert ask(server.url, path(kept)).status == 200
    assert [future.result().status for future in saves] == [201, 201]
    assert len(database.rows()) == 3, "what was answered 503 was saved"


def test_a_save_that_waits_too_long_is_503(
    start: Callable[..., Server], database: Database
) -> None:
    server = start(*database.flags(), "--database.statement-timeout", "100ms")
    with database.locked():
        late = save(server)
        problem(late, 503, "database-unavailable")
        assert int(late.headers["retry-after"]) > 0
        # On a busy machine, a save may time out before the writer tries to lock.
        lock = "another process, such as a replica that is stopped, keeps the lock"
        eventually(lambda: lock in problem(save(server), 503, "database-unavailable")["detail"])
    # On a busy machine, the short timeout may fail a few more requests.
    becomes(lambda: save(server).status, 201)
    assert len(database.rows()) == 1, "what was answered 503 was saved"


@contextmanager
def unreadable(database: Database) -> Iterator[None]:
    """Takes all locks that readers need (sqlite.org/walformat.html, section 2.3)."""
    with Path(f"{database.path}-shm").open("r+b") as index:
        fcntl.lockf(index, fcntl.LOCK_EX, 5, 123)
        yield


def test_reads_wait_for_a_connection_only_so_long(
    start: Callable[..., Server], database: Database, pool: ThreadPoolExecutor
) -> None:
    more = ("--lanes", "1", "--database.connections", "1", "--database.wait", "100ms")
    server = start(*database.flags(), *more, "--database.statement-timeout", "1h")
    project = json.loads(save(server).body)

    def read() -> Reply:
        return ask(server.url, path(project))

    assert read().status == 200
    with unreadable(database):
        first = pool.submit(read)
        eventually(lambda: metric(server, "connections_in_use") == 1)
        exhausted = read()
        problem(exhausted, 503, "overloaded")
        assert int(exhausted.headers["retry-after"]) > 0
        assert ask(server.url, "/hello").status == 200
    assert first.result().status == 200
    assert read().status == 200
    assert metric(server, "operations_total", operation="get", result="exhausted") == 1


def test_a_read_that_takes_too_long_is_503(
    start: Callable[..., Server], database: Database
) -> None:
    first = start(*database.flags())
    project = json.loads(save(first).body)
    server = start(*database.flags(), "--database.statement-timeout", "200ms")
    with unreadable(database):
        problem(ask(server.url, path(project)), 503, "database-unavailable")
    eventually(lambda: ask(server.url, path(project)).status == 200)


def test_several_processes_share_a_file(
    start: Callable[..., Server], database: Database, pool: ThreadPoolExecutor
) -> None:
    """Processes create projects concurrently, see each other's projects and lose no update."""
    flags = [*database.flags(), *PATIENT, "--drain.settle", "0s"]
    servers = [future.result() for future in [pool.submit(start, *flags) for _ in range(3)]]
    project = json.loads(save(servers[0], "0").body)

    def count(server: Server) -> None:
        mine = Projects(server.url)
        for _ in range(10):
            while True:
                now = mine.ask(path(project))
                name = {"name": str(int(json.loads(now.body)["name"]) + 1)}
                tag = {"If-Match": now.headers["etag"]}
                status = mine.ask(path(project), "PUT", name, tag).status
                if status == 200:
                    break
                assert status == 412
        mine.close()

    list(pool.map(count, servers * 2))
    assert database.rows() == {key(project): {"name": "60"}}
    for server in servers:
        server.terminate()
        assert server.end()[0] == 0
    # The last server merges the log into the file (sqlite.org/wal.html).
    assert [file.name for file in database.folder.glob("projects.db*")] == ["projects.db"]


def test_the_log_is_cut_when_a_long_reader_is_gone(
    start: Callable[..., Server], database: Database, pool: ThreadPoolExecutor
) -> None:
    server = start(*database.flags(), *PATIENT)
    large = {"name": "n", "tasks": [{"title": "t", "notes": "n" * 2000}] * 31}
    log = Path(f"{database.path}-wal")

    def save_large(_: int = 0) -> None:
        Projects(server.url).create(large)

    save_large()
    reader = database.connect()
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM projects").fetchall()
    list(pool.map(save_large, range(300)))
    assert log.stat().st_size > 16 << 20
    reader.close()

    def is_cut() -> bool:
        save_large()
        return log.stat().st_size <= 16 << 20

    eventually(is_cut)


def test_a_drain_saves_what_is_queued(
    start: Callable[..., Server], database: Database, pool: ThreadPoolExecutor
) -> None:
    server = start(*database.flags(), *PATIENT, "--drain.settle", "0s")
    with database.locked():
        saves = [pool.submit(save, server) for _ in range(5)]
        eventually(lambda: queued(server) == 5)
        server.terminate()
        eventually(lambda: ask(server.admin, "/readyz").status == 503)
    made = [json.loads(future.result().body) for future in saves]
    assert server.end()[0] == 0
    assert set(database.rows()) == {key(project) for project in made}


def refusal(binary: Path, database: Database) -> str:
    """The startup error for this file."""
    argv = [binary, "--listen", "127.0.0.1:0", "--admin.listen", "127.0.0.1:0", *database.flags()]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 1
    return ended.stderr


def test_a_file_of_a_newer_version_is_refused(
    start: Callable[..., Server], binary: Path, database: Database
) -> None:
    server = start(*database.flags(), "--drain.settle", "0s")
    assert save(server).status == 201
    server.terminate()
    server.end()
    connection = database.connect()
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    words = refusal(binary, database)
    assert "schema version 99" in words
    assert str(database.path) in words


def test_a_file_of_another_program_is_refused(binary: Path, database: Database) -> None:
    connection = database.connect()
    connection.execute("CREATE TABLE projects (mine TEXT)")
    connection.close()
    assert "belongs to another program" in refusal(binary, database)
    with sqlite3.connect(database.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",), "it was changed"


CLIENTS = 8


def document(generator: random.Random) -> dict:
    """Returns a document of about 5 kB with a checksum."""
    notes = [f"{generator.getrandbits(4 * 900):x}" for _ in range(5)]
    sum_of = hashlib.sha256("".join(notes).encode()).hexdigest()
    return {"name": sum_of, "tasks": [{"title": "t", "notes": note} for note in notes]}


def is_whole(found: dict) -> bool:
    notes = "".join(task["notes"] for task in found["tasks"])
    return hashlib.sha256(notes.encode()).hexdigest() == found["name"]


@dataclass
class Acknowledged:
    """Acknowledged changes, plus the possible effect of an unanswered last request."""

    versions: dict[str, tuple[int, str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    open: str | None = None


def stream(url: str, seed: str, enough: Callable[[], None]) -> Acknowledged:
    """Creates, replaces and deletes projects until the server is gone."""
    generator, told, client = random.Random(seed), Acknowledged(), Projects(url)
    while True:
        new = document(generator)
        choice = generator.random()
        target = generator.choice([*told.versions]) if told.versions and choice < 0.5 else None
        told.open = target
        try:
            if target is None:
                reply = client.ask("/projects", "POST", new)
            elif choice < 0.4:
                reply = client.ask(target, "PUT", new)
            else:
                reply = client.ask(target, "DELETE")
        except (OSError, http.client.HTTPException):
            return told
        told.open = None
        if reply.status == 204:
            del told.versions[target]
            told.deleted.add(target)
        else:
            assert reply.status in (200, 201), reply
            project = json.loads(reply.body)
            told.versions[path(project)] = (project["version"], new["name"])
        enough()


@pytest.mark.parametrize("seed", range(3))
def test_no_acknowledged_save_is_lost_when_the_server_is_killed(
    start: Callable[..., Server], tmp_path: Path, seed: int
) -> None:
    database, generator = Database(tmp_path), random.Random(seed)
    everything: list[Acknowledged] = []
    # The second run starts from the remains of the first crash.
    for life in range(2):
        server = start(*database.flags(), *PATIENT)
        left = [generator.randrange(100, 400)]

        def enough(left: list[int] = left, server: Server = server) -> None:
            left[0] -= 1
            if left[0] <= 0:
                server.kill()

        with ThreadPoolExecutor(CLIENTS) as pool:
            streams = [
                pool.submit(stream, server.url, f"{seed} {life} {client}", enough)
                for client in range(CLIENTS)
            ]
            everything += [future.result() for future in streams]
        assert server.wait() == -9

    client = Projects(start(*database.flags()).url)
    for told in everything:
        for target, (version, name) in told.versions.items():
            reply = client.ask(target)
            if target == told.open:
                # The last change is either complete or absent.
                assert reply.status in (200, 404)
                continue
            assert reply.status == 200, f"{target} was acknowledged and is lost"
            project = json.loads(reply.body)
            assert (project["version"], project["name"]) == (version, name)
        for target in told.deleted:
            assert client.ask(target).status == 404
    rows = database.rows()
    assert rows
    assert all(is_whole(found) for found in rows.values())
