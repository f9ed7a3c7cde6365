"""Projects in PostgreSQL: schema, storage, statements and connections."""

import json
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stack import PATIENCE, becomes, eventually
from stack.http import Reply, ask
from stack.postgres import Database, holding
from stack.replica import Server
from support.projects import PATIENT, Writer, connected, database_line, lists
from support.raw import connect

ONE = ("--lanes", "1", "--database.connections", "1")
ENDLESS = ("--database.statement-timeout", "1h")
"""No response depends on this timeout."""

LOCKED = "LOCK TABLE projects"


def is_refused(reply: Reply, slug: str) -> None:
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0
    assert json.loads(reply.body)["type"] == f"urn:corelane:problem:{slug}"


def gauge(server: Server, name: str) -> float:
    return server.metrics()[f"corelane_database_{name}"]


def backends(database: Database) -> list[list[str]]:
    mine = f"datname = '{database.name}' AND usename = 'corelane'"
    return database.query(f"SELECT pid FROM pg_stat_activity WHERE {mine} ORDER BY pid")


def test_each_lane_has_a_pool(database: Database, start: Callable[..., Server]) -> None:
    server = start(*database.flags(), "--lanes", "2", "--database.connections", "3")
    connected(server)
    eventually(lambda: len(backends(database)) == 6)
    eventually(lambda: gauge(server, "connections") == 6)


def test_statements_are_prepared_once_on_each_connection(
    database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    database.query(f"ALTER DATABASE {database.name} SET log_statement = 'all'")
    # PostgreSQL logs only the duration of a parse.
    database.query(f"ALTER DATABASE {database.name} SET log_min_duration_statement = 0")
    server = start(*database.flags(), *writer.flags(), *ONE)
    connected(server)

    def logged(step: str, statement: str) -> list[str]:
        """Statement names that the log contains for this step."""
        line = rf"@{database.name} .* {step} (\S+): {statement}"
        return re.findall(line, database.server.log.read_text())

    save = "INSERT INTO projects"
    for number in (1, 2):
        assert writer.save(server, {"name": "p"}).status == 201
        eventually(lambda wanted=number: len(logged("execute", save)) == wanted)
    (name,) = logged("parse", save)
    assert name != "<unnamed>"
    assert logged("execute", save) == [name, name]


def test_an_exhausted_pool_refuses(database: Database, start: Callable[..., Server]) -> None:
    server = start(*database.flags(), *ONE, *ENDLESS, "--database.wait", "100ms")
    connected(server)
    with ThreadPoolExecutor() as threads, holding(database, LOCKED):
        first = threads.submit(lists, server)
        eventually(lambda: gauge(server, "connections_in_use") == 1)
        is_refused(ask(server.url, "/projects"), "overloaded")
        assert gauge(server, "queue_length") == 0
        assert ask(server.url, "/hello").status == 200
        assert not first.done()
        assert not database_line(server)
    assert first.result() == 200
    assert lists(server) == 200


def test_a_full_queue_refuses_at_once(database: Database, start: Callable[..., Server]) -> None:
    server = start(*database.flags(), *ONE, *PATIENT, "--database.queue", "1")
    connected(server)
    with ThreadPoolExecutor() as threads, holding(database, LOCKED):
        first = threads.submit(lists, server)
        eventually(lambda: gauge(server, "connections_in_use") == 1)
        second = threads.submit(lists, server)
        eventually(lambda: gauge(server, "queue_length") == 1)
        is_refused(ask(server.url, "/projects"), "overloaded")
        assert not first.done()
        assert not second.done()
    assert (first.result(), second.result()) == (200, 200)


def left(server: Server, writer: Writer) -> None:
    fields = "".join(f"{name}: {value}\r\n" for name, value in writer.headers().items())
    with connect(server.url) as client:
        head = f"POST /projects HTTP/1.1\r\nHost: test\r\n{fields}Content-Length: 15\r\n\r\n"
        client.sendall(head.encode() + b'{"name":"left"}')
        eventually(lambda: gauge(server, "connections_in_use") == 1)


def test_who_leaves_does_not_leave_the_connection_busy(
    database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    server = start(*database.flags(), *writer.flags(), *ONE, *PATIENT)
    connected(server)
    before = backends(database)
    with ThreadPoolExecutor() as threads:
        with holding(database, LOCKED):
            left(server, writer)
            eventually(lambda: gauge(server, "connections_in_use") == 0)
            # The statement of the client that left is still running, so the next statement waits.
            waiting = threads.submit(lists, server)
            eventually(lambda: gauge(server, "queue_length") == 1)
        assert waiting.result() == 200
    assert backends(database) == before
    # The project was saved, because it was sent before the client disconnected.
    assert database.query("SELECT document FROM projects") == [['{"name":"left"}']]


def test_a_statement_that_takes_too_long_is_stopped(
    database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    bound = ("--database.statement-timeout", "100ms")
    server = start(*database.flags(), *writer.flags(), *ONE, *bound)
    connected(server)
    before = backends(database)
    with holding(database, LOCKED):
        is_refused(ask(server.url, "/projects"), "database-unavailable")
        is_refused(writer.save(server, {"name": "p"}), "database-unavailable")
        # The database itself is up.
        assert not database_line(server)
    # On a busy machine, the short timeout may fail a few more requests.
    becomes(lambda: lists(server), 200)
    assert backends(database) == before
    assert database.query("SELECT count(*) FROM projects") == [["0"]]


def test_fewer_connections_than_wanted_are_enough(
    database: Database, start: Callable[..., Server]
) -> None:
    database.query(f"ALTER DATABASE {database.name} CONNECTION LIMIT 2")
    server = start(*database.flags(), "--lanes", "1", "--database.connections", "4")
    connected(server)
    eventually(lambda: len(backends(database)) == 2)
    eventually(lambda: gauge(server, "connections") == 2)
    assert lists(server) == 200

    late = start(*database.flags(), *ONE)
    eventually(lambda: "too many connections" in database_line(late))
    is_refused(ask(late.url, "/projects"), "database-unavailable")
    assert ask(late.url, "/hello").status == 200
    assert not database_line(server)

    database.query(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
    connected(late)
    eventually(lambda: len(backends(database)) == 5)
    assert (lists(late), lists(server)) == (200, 200)


def test_whatever_the_defaults_are_saves_are_durable_and_bounded(
    start: Callable[..., Server], database: Database, writer: Writer
) -> None:
    database.query(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    database.query(
        f"ALTER DATABASE {database.name} SET default_transaction_isolation = serializable"
    )
    server = start(*database.flags(), *writer.flags(), "--database.statement-timeout", "7s")
    connected(server)
    database.query(
        """
        CREATE TABLE seen AS SELECT ''::text AS setting LIMIT 0; GRANT INSERT ON seen TO corelane;
        CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO seen SELECT current_setting(name) FROM unnest(ARRAY['synchronous_commit',
                'statement_timeout', 'transaction_isolation', 'application_name']) AS name;
            RETURN NEW; END $$;
        CREATE TRIGGER look BEFORE INSERT ON projects FOR EACH ROW EXECUTE FUNCTION look();
        """
    )
    assert writer.save(server, {"name": "p"}).status == 201
    seen = [row[0] for row in database.query("SELECT setting FROM seen")]
    assert seen == ["on", "7s", "read committed", "corelane/test"]


SECRET = "correct-horse-battery"


def run(argv: list[object], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.parametrize("check", [[], ["--check"]], ids=["run", "check"])
@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"postgres://me:{SECRET}@localhost/db", "database.password_file"),
        (f"postgres://me@localhost/db?password={SECRET}", "database.password_file"),
        (f"postgres://me:{SECRET}@localhost:port/db", "expected an address"),
        (f"host=localhost password={SECRET}", "expected an address"),
        ("postgres:///db", "with a host"),
        ("", "expected an address"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(
    binary: Path, url: str, says: str, check: list[str]
) -> None:
    argv = [binary, "--database.kind", "postgres", *check]
    ended = run(argv, {"CORELANE_DATABASE_URL": url})
    assert ended.returncode == 64
    assert says in ended.stderr
    assert "database.url" in ended.stderr
    assert SECRET not in ended.stdout + ended.stderr


def test_a_url_that_is_not_used_is_judged_too(binary: Path) -> None:
    ended = run([binary, "--check"], {"CORELANE_DATABASE_URL": f"postgres://me:{SECRET}@db/name"})
    assert ended.returncode == 64
    assert "database.password_file" in ended.stderr
    assert SECRET not in ended.stdout + ended.stderr


def test_authorities_and_no_tls_contradict_each_other(binary: Path, tmp_path: Path) -> None:
    flags = ["--database.kind", "postgres", "--database.url", "postgres://h/d?sslmode=disable"]
    argv = [binary, *flags, "--database.ca-file", tmp_path / "ca.crt", "--check"]
    ended = run(argv, {})
    assert ended.returncode == 64
    assert "database.ca_file" in ended.stderr


LOCK = int.from_bytes(b"corelane", "big")


def waiting(database: Database) -> int:
    """Sessions that wait for the migration lock."""
    return int(
        database.query(
            "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
            f" WHERE locktype = 'advisory' AND NOT granted AND datname = '{database.name}'"
        )[0][0]
    )


def test_replicas_that_start_together_take_turns(
    database: Database, start: Callable[..., Server]
) -> None:
    flags = (*database.flags(), "--lanes", "2")
    with ThreadPoolExecutor() as threads:
        with holding(database, f"SELECT pg_advisory_xact_lock({LOCK})"):
            starting = [threads.submit(start, *flags) for _ in range(3)]
            # Every lane of both replicas wants to create the tables.
            eventually(lambda: waiting(database) == 6)
            assert not any(each.done() for each in starting)
        for server in (each.result() for each in starting):
            connected(server)
            assert lists(server) == 200
    assert database.query("SELECT version FROM corelane_migrations") == [["1"]]


def test_newer_tables_are_left_alone(database: Database, start: Callable[..., Server]) -> None:
    first = start(*database.flags())
    connected(first)
    newer = "INSERT INTO corelane_migrations (version, serves) VALUES (99, 98)"
    database.query(newer)
    server = start(*database.flags())
    eventually(lambda: "tables have version 99" in database_line(server))
    assert lists(server) == 503
    assert ask(server.url, "/hello").status == 200
    assert database.query("SELECT max(version) FROM corelane_migrations") == [["99"]]

    # A newer build can declare its schema compatible with older builds.
    database.query("UPDATE corelane_migrations SET serves = 1 WHERE version = 99")
    connected(server)
    assert lists(server) == 200


def test_somebody_else_may_migrate(database: Database, start: Callable[..., Server]) -> None:
    server = start(*database.flags(), "--database.migrate", "off")
    eventually(lambda: "database.migrate" in database_line(server))
    assert lists(server) == 503
    assert database.query("SELECT to_regclass('projects') IS NULL") == [["t"]]
    connected(start(*database.flags()))
    connected(server)
    assert lists(server) == 200


def test_an_unsuitable_database_is_named(database: Database, start: Callable[..., Server]) -> None:
    name = f"{database.name}_latin"
    database.query(f"CREATE DATABASE {name} OWNER corelane ENCODING LATIN1 TEMPLATE template0")
    server = start(*Database(database.server, name).flags())
    eventually(lambda: "encoding is LATIN1" in database_line(server))
    assert lists(server) == 503
