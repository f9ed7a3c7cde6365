"""Several servers of which one is the primary, and what is kept when one of them or a replica is killed."""

import json
import shutil
import subprocess
from collections.abc import Callable

from support import eventually
from support.client import ask
from support.postgres import Database, Postgres
from support.processes import free_ports
from support.projects import Saves, Writer, connected, database_line, lists
from support.servers import Server


def standby_of(primary: Postgres, made: Postgres) -> None:
    """Makes a new server a hot standby with the primary's data, which it has from a copy."""
    made.end()
    primary.end()
    shutil.rmtree(made.instance.data)
    argv = ["cp", "--archive", str(primary.instance.data), str(made.instance.data)]
    subprocess.run(argv, check=True)
    for name in ("password", "superuser-password"):
        shutil.copy(primary.instance.folder / name, made.instance.folder / name)
    (made.instance.data / "standby.signal").touch()
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
    # The standby comes first, and is passed over.
    hosts = ",".join(f"127.0.0.1:{each.instance.settings.port}" for each in (second, first))
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
    # The standby has what the primary had when it was copied: no tables yet.
    assert [json.loads(row[0])["name"] for row in saved] == ["on the second"]


def test_a_host_that_does_not_answer_is_passed_over(
    database: Database, start: Callable[..., Server]
) -> None:
    port = database.server.instance.settings.port
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
    # As a primary that was made a standby under its sessions answers them, and new ones.
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
    # From a database that is not read-only.
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
            serving[-1].process.kill()
            serving.append(start(*flags))
            connected(serving[-1])
        saves.more(SAVES)
    assert saves.refused > 0
    saves.check(serving[-1])


def test_postgresql_is_killed(
    mortal: Postgres, writer: Writer, start: Callable[..., Server]
) -> None:
    database = mortal.database()
    # Saves would be lost if the server did not ask for better.
    database.query(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    server = start(*database.flags(), *writer.flags())
    connected(server)
    with Saves(lambda: server.url, writer) as saves:
        for _ in range(2):
            saves.more(SAVES)
            mortal.kill()
            # It reads its log first: that it was not shut down is what this is about.
            mortal.start()
        saves.more(SAVES)
    assert "was not properly shut down" in mortal.log()
    assert saves.refused > 0
    connected(server)
    saves.check(server)
