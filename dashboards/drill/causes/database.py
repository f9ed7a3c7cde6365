"""A PostgreSQL that is down, or too slow for the load."""

from collections.abc import Iterator

from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place, Server
from support.client import ask
from support.postgres import Database, Postgres, holding


def _postgres(place: Place) -> Database:
    folder = place.folder / "postgres"
    folder.mkdir()
    server = Postgres(folder)
    place.stack.callback(server.remove)
    return server.database()


def _lists(place: Place, server: Server) -> None:
    place.until(
        lambda: ask(server.url, "/projects").status == 200, f"{server.name} lists its projects"
    )


@drill("CorelaneDatabaseDown", how="PostgreSQL is stopped; started again")
def database_stopped(place: Place) -> Iterator[Labels]:
    database = _postgres(place)
    server = place.server(*database.flags())
    _lists(place, server)
    place.begins()
    database.server.end()
    with place.again(lambda: ask(server.url, "/projects")):
        yield {"pod": server.name}
    database.server.start()


@drill(
    "CorelaneDatabaseExhausted",
    "CorelaneDatabaseBusy",
    how="a lock on the table, one connection, a wait of 200 ms, six clients; the lock is released",
)
def database_exhausted(place: Place) -> Iterator[Labels]:
    database = _postgres(place)
    small = ("--database.connections", "1", "--database.wait", "200ms", "--lanes", "1")
    server = place.server(*database.flags(), *small, "--database.statement-timeout", "1s")
    _lists(place, server)
    place.begins()
    with (
        holding(database, "LOCK TABLE projects"),
        place.load(server.url, "/projects", clients=6, rate=30),
    ):
        yield {"pod": server.name}
