"""What was acknowledged is kept, whoever is killed while projects are saved."""

from collections.abc import Callable

from support.postgres import Postgres
from support.projects import Saves, Writer, connected
from support.servers import Server

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
