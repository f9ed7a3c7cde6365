"""PostgreSQL is unavailable, hangs or fails over: which requests fail and which data survive."""

import json
import shutil
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from stack import becomes, eventually
from stack.http import Reply, ask
from stack.ports import free_ports
from stack.postgres import Database, Postgres, holding
from stack.replica import Server
from support.projects import Saves, Writer, connected, database_line, lists


@pytest.fixture
def database(mortal: Postgres) -> Database:
    """A database on a PostgreSQL that tests may kill."""
    return mortal.database()


def is_refused(reply: Reply) -> None:
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0
    assert json.loads(reply.body)["type"] == "urn:corelane:problem:database-unavailable"


def serves_the_rest(server: Server) -> None:
    """Requests without a database succeed, and the replica stays ready."""
    for path in ("/", "/hello", "/static/"):
        assert ask(server.url, path).status == 200, path
    assert ask(server.admin, "/readyz").status == 200


def finds_down(server: Server) -> None:
    """Waits until the server reports the database as down."""
    eventually(lambda: database_line(server), "a database that is down")
    assert server.metrics()['corelane_dependency_up{dependency="database"}'] == 0


def test_down_at_the_start(
    mortal: Postgres, database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    mortal.end()
    server = start(*database.flags(), *writer.flags())
    finds_down(server)
    eventually(lambda: "refused" in database_line(server), "the reason")
    is_refused(ask(server.url, "/projects"))
    is_refused(writer.save(server, {"name": "p"}))
    serves_the_rest(server)
    mortal.start()
    connected(server)
    assert writer.save(server, {"name": "p"}).status == 201
    assert server.metrics()['corelane_dependency_up{dependency="database"}'] == 1


def test_ready_when_the_first_attempt_has_ended(start: Callable[..., Server]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgres://corelane@127.0.0.1:{silent.getsockname()[1]}/corelane"
        flags = ("--lanes", "1", "--database.kind", "postgres", "--database.url", url)
        server = start(*flags, "--database.connect-timeout", "1h", wait=False)

        def waits() -> bool:
            try:
                reply = ask(server.admin, "/readyz")
            except OSError:
                return False
            told = b"not ready: serving\ndatabase: not connected yet\n"
            return (reply.status, reply.body) == (503, told)

        eventually(waits, "a server that waits for its first connection")
        silent.accept()[0].close()
        eventually(server.ready, "a server that is ready without its database")
        finds_down(server)

        late = start(*flags, "--database.connect-timeout", "100ms")
        assert "no answer within 100ms" in database_line(late)
        serves_the_rest(late)


def test_ready_is_connected(
    database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    server = start(*database.flags(), *writer.flags())
    assert not database_line(server)
    assert writer.save(server, {"name": "p"}).status == 201


@pytest.mark.parametrize("how", ["end", "kill"])
def test_gone_while_serving(
    mortal: Postgres, database: Database, writer: Writer, start: Callable[..., Server], how: str
) -> None:
    server = start(*database.flags(), *writer.flags())
    connected(server)
    path = writer.save(server, {"name": "kept"}).headers["location"]
    getattr(mortal, how)()
    finds_down(server)
    is_refused(ask(server.url, path))
    is_refused(writer.save(server, {"name": "lost"}))
    serves_the_rest(server)
    mortal.start()
    connected(server)
    assert json.loads(ask(server.url, path).body)["name"] == "kept"
    assert database.query("SELECT count(*) FROM projects") == [["1"]]


def test_hanging(
    mortal: Postgres, database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    # Far longer than any client waits.
    waits = ("--database.wait", "1h", "--database.connect-timeout", "1h")
    few = ("--database.connections", "1", "--lanes", "1", "--database.statement-timeout", "100ms")
    server = start(*database.flags(), *writer.flags(), *waits, *few)
    connected(server)
    mortal.freeze()
    # The kernel accepts the data, but no response arrives.
    is_refused(ask(server.url, "/projects"))
    finds_down(server)
    assert "not answered" in database_line(server)
    is_refused(ask(server.url, "/projects"))
    is_refused(writer.save(server, {"name": "p"}))
    serves_the_rest(server)
    mortal.thaw()
    connected(server)
    # On a busy machine, the short timeout may fail a few more requests.
    becomes(lambda: writer.save(server, {"name": "p"}).status, 201)


def test_sessions_that_are_ended_are_replaced(
    database: Database, start: Callable[..., Server]
) -> None:
    server = start(*database.flags(), "--lanes", "1")
    connected(server)
    mine = f"FROM pg_stat_activity WHERE datname = '{database.name}' AND usename = 'corelane'"
    eventually(lambda: database.query(f"SELECT count(*) {mine}") == [["4"]], "four sessions")
    before = database.query(f"SELECT pid {mine}")
    database.query(f"SELECT pg_terminate_backend(pid) {mine}")

    def replaced() -> bool:
        now = database.query(f"SELECT pid {mine}")
        return len(now) == 4 and not any(pid in before for pid in now)

    eventually(replaced, "four other sessions")
    connected(server)
    assert lists(server) == 200


def test_a_request_under_way_is_answered_when_the_connection_breaks(
    mortal: Postgres, database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    server = start(*database.flags(), *writer.flags(), "--lanes", "1")
    connected(server)
    with ThreadPoolExecutor() as threads, holding(database, "LOCK TABLE projects"):
        save = threads.submit(writer.save, server, {"name": "p"})
        eventually(lambda: server.metrics()["corelane_database_connections_in_use"] == 1)
        mortal.kill()
        is_refused(save.result())
    mortal.start()
    connected(server)
    # Not retried.
    assert database.query("SELECT count(*) FROM projects") == [["0"]]


def standby_of(primary: Postgres, made: Postgres) -> None:
    """Creates a hot standby from a base backup."""
    made.end()
    primary.end()
    shutil.rmtree(made.data)
    argv = ["cp", "--archive", str(primary.data), str(made.data)]
    subprocess.run(argv, check=True)
    for name in ("password", "superuser-password"):
        shutil.copy(primary.folder / name, made.folder / name)
    (made.data / "standby.signal").touch()
    made.start()
    primary.start()


def test_the_primary_is_used_and_followed(
    mortal: Postgres,
    new_postgres: Callable[..., Postgres],
    writer: Writer,
    start: Callable[..., Server],
) -> None:
    first, second = mortal, new_postgres()
    database = first.database()
    standby_of(first, second)
    # The standby is listed first and must be skipped.
    hosts = ",".join(f"127.0.0.1:{each.settings.port}" for each in (second, first))
    url = f"postgres://corelane@{hosts}/{database.name}"
    files = ["--database.password-file", database.password_file]
    server = start("--database.kind", "postgres", "--database.url", url, *files, *writer.flags())
    connected(server)
    assert writer.save(server, {"name": "on the first"}).status == 201
    assert database.query("SELECT count(*) FROM projects") == [["1"]]

    first.kill()
    eventually(lambda: "does not allow writes" in database_line(server))
    eventually(lambda: "refused" in database_line(server))
    assert lists(server) == 503
    second.query("SELECT pg_promote()")
    connected(server)
    assert writer.save(server, {"name": "on the second"}).status == 201
    saved = Database(second, database.name).query("SELECT document FROM projects")
    # The standby was copied before the tables existed.
    assert [json.loads(row[0])["name"] for row in saved] == ["on the second"]


def test_a_host_that_does_not_answer_is_passed_over(
    database: Database, start: Callable[..., Server]
) -> None:
    port = database.server.settings.port
    url = f"postgres://corelane@127.0.0.1:{free_ports()},127.0.0.1:{port}/{database.name}"
    files = ["--database.password-file", database.password_file]
    server = start("--database.kind", "postgres", "--database.url", url, *files)
    connected(server)
    assert lists(server) == 200


def test_a_server_that_became_read_only_is_left(
    database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    server = start(*database.flags(), *writer.flags(), "--lanes", "1")
    connected(server)
    # Simulates a primary that became read-only.
    database.query(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE 'cannot execute INSERT in a read-only transaction' USING ERRCODE = '25006';
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON projects EXECUTE FUNCTION refuse();
        """
    )
    database.query(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
    assert lists(server) == 200
    assert writer.save(server, {"name": "p"}).status == 503
    eventually(lambda: "does not allow writes" in database_line(server))
    assert lists(server) == 503
    assert ask(server.url, "/hello").status == 200
    # From a writable database.
    database.server.query(f"ALTER DATABASE {database.name} RESET default_transaction_read_only")
    connected(server)
    assert lists(server) == 200


SAVES = 100
"""Acknowledged before each kill, on four connections."""


def test_the_server_is_killed(
    postgres: Postgres, writer: Writer, start: Callable[..., Server]
) -> None:
    database = postgres.database()
    flags = (*database.flags(), *writer.flags())
    serving = [start(*flags)]
    connected(serving[0])
    with Saves(lambda: serving[-1].url, writer) as saves:
        for _ in range(2):
            saves.more(SAVES)
            serving[-1].kill()
            saves.fail()
            serving.append(start(*flags))
            connected(serving[-1])
        saves.more(SAVES)
    saves.check(serving[-1])


def test_postgresql_is_killed(
    mortal: Postgres, writer: Writer, start: Callable[..., Server]
) -> None:
    database = mortal.database()
    # The default would lose saves unless the server overrides it.
    database.query(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    server = start(*database.flags(), *writer.flags())
    connected(server)
    with Saves(lambda: server.url, writer) as saves:
        saves.more(SAVES)
        mortal.kill()
        saves.fail()
        # Crash recovery reads the log first.
        mortal.start()
        saves.more(SAVES)
    assert "was not properly shut down" in mortal.log.read_text()
    connected(server)
    saves.check(server)
