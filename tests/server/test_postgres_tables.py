"""The tables: made once however many replicas start, and left alone by builds they do not suit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from support import eventually
from support.client import ask
from support.postgres import Database, holding
from support.projects import connected, database_line, lists
from support.servers import Server

LOCK = int.from_bytes(b"corelane", "big")


def waiting(database: Database) -> int:
    """Sessions of this database that wait for the lock of migrations."""
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
            # Each lane of each replica found no tables, and wants to make them.
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

    # A newer build may say that its tables serve older builds on, as in a roll-out.
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
