"""The connections of a lane: how many there are, who waits for one, and for how long."""

import json
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from support import eventually
from support.client import Reply, ask
from support.postgres import Database, holding
from support.projects import Writer, connected, database_line, lists
from support.servers import Server

ONE = ("--lanes", "1", "--database.connections", "1")
ENDLESS = ("--database.statement-timeout", "1h")
PATIENT = ("--database.wait", "1h")
"""Longer than a client waits: what is answered did not wait for these."""

LOCKED = "LOCK TABLE projects"


def is_refused(reply: Reply, slug: str) -> None:
    """A reply that says to come back."""
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0
    assert json.loads(reply.body)["type"] == f"urn:corelane:problem:{slug}"


def gauge(server: Server, name: str) -> float:
    """A metric of the database."""
    return server.metrics()[f"corelane_database_{name}"]


def backends(database: Database) -> list[list[str]]:
    """The processes that serve the service's sessions."""
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
    # Of a parse PostgreSQL logs only how long it took.
    database.query(f"ALTER DATABASE {database.name} SET log_min_duration_statement = 0")
    server = start(*database.flags(), *writer.flags(), *ONE)
    connected(server)

    def logged(step: str, statement: str) -> list[str]:
        """The names under which a statement went through this step."""
        line = rf"@{database.name} .* {step} (\S+): {statement}"
        return re.findall(line, database.server.log())

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
    server = start(*database.flags(), *ONE, *ENDLESS, *PATIENT, "--database.queue", "1")
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
    """A client that sends a save and leaves."""
    address = urlsplit(server.url)
    fields = "".join(f"{name}: {value}\r\n" for name, value in writer.headers().items())
    with socket.create_connection((address.hostname, address.port), timeout=20) as client:
        head = f"POST /projects HTTP/1.1\r\nHost: test\r\n{fields}Content-Length: 15\r\n\r\n"
        client.sendall(head.encode() + b'{"name":"left"}')
        eventually(lambda: gauge(server, "connections_in_use") == 1)


def test_who_leaves_does_not_leave_the_connection_busy(
    database: Database, writer: Writer, start: Callable[..., Server]
) -> None:
    server = start(*database.flags(), *writer.flags(), *ONE, *ENDLESS, *PATIENT)
    connected(server)
    before = backends(database)
    with ThreadPoolExecutor() as threads:
        with holding(database, LOCKED):
            left(server, writer)
            eventually(lambda: gauge(server, "connections_in_use") == 0)
            # Its statement is under way still, so the next one waits for the connection.
            waiting = threads.submit(lists, server)
            eventually(lambda: gauge(server, "queue_length") == 1)
        assert waiting.result() == 200
    assert backends(database) == before
    # What was sent before the client left was saved.
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
    assert lists(server) == 200
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
