"""A real PostgreSQL for tests: `database` is a new one on a server that all tests share, `new_postgres` makes servers.

    def test_something(database, start):
        server = start(*database.flags())

What kills or stops its PostgreSQL, or wants TLS, takes a server of its own from `new_postgres`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stack import HOST
from stack.ports import free_ports
from stack.postgres import Database, Postgres, Settings, make


@pytest.fixture(scope="session")
def new_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Postgres]]:
    """Makes servers that run: new_postgres(tls=True); all of them are removed at the end."""
    made: list[Postgres] = []

    def new(address: str = HOST, **settings: Any) -> Postgres:
        folder = tmp_path_factory.mktemp("postgres")
        made.append(make(folder, Settings(free_ports(1, address), address, **settings)))
        made[-1].start()
        return made[-1]

    yield new
    for server in made:
        server.remove()


@pytest.fixture(scope="session")
def postgres(new_postgres: Callable[..., Postgres]) -> Postgres:
    """The server that tests share; they leave it running."""
    return new_postgres()


@pytest.fixture
def database(postgres: Postgres) -> Database:
    """A new database on the server that tests share."""
    return postgres.database()
