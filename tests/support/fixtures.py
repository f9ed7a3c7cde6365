"""The processes of `stack` as fixtures.

`start` starts servers, `server` is one for a module. `database` is a new one on a PostgreSQL that all tests share;
what kills or stops its PostgreSQL, or wants TLS, takes its own server from `new_postgres`:

    def test_something(database, start):
        server = start(*database.flags())
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stack import HOST, apiserver, node
from stack.ports import free_ports
from stack.postgres import Database, Postgres, Settings, make
from stack.programs import program
from stack.replica import Server, servers


@pytest.fixture(scope="session")
def binary() -> Path:
    """The server's own program."""
    return program("corelane-server")


@pytest.fixture(scope="session")
def command() -> Path:
    """Returns the program `corelane`."""
    return program("corelane")


@pytest.fixture
def start(binary: Path) -> Iterator[Callable[..., Server]]:
    """Returns a function that starts servers on free ports, which are killed at the end of a test."""
    with servers(binary) as start:
        yield start


@pytest.fixture(scope="module")
def starter(binary: Path) -> Iterator[Callable[..., Server]]:
    """Like `start`, for fixtures shared by the tests of a module."""
    with servers(binary) as start:
        yield start


@pytest.fixture(scope="module")
def server(starter: Callable[..., Server]) -> Server:
    """Yields one server for the tests of a module that do not change it."""
    return starter()


@pytest.fixture(scope="session")
def new_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Postgres]]:
    """Returns a function that starts PostgreSQL servers: new_postgres(tls=True). All are removed at the end."""
    made: list[Postgres] = []

    def new(address: str = HOST, **settings: Any) -> Postgres:
        folder = tmp_path_factory.mktemp("postgres")
        made.append(make(folder, Settings(free_ports(1, address), address, **settings)))
        made[-1].start()
        return made[-1]

    yield new
    for each in made:
        each.remove()


@pytest.fixture(scope="session")
def postgres(new_postgres: Callable[..., Postgres]) -> Postgres:
    """Yields the server that tests share and must not stop."""
    return new_postgres()


@pytest.fixture
def database(postgres: Postgres) -> Database:
    """Creates a database on the server that tests share."""
    return postgres.database()


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apiserver.Api]:
    """Yields an API server that all tests share, each in its own namespaces."""
    with apiserver.running(tmp_path_factory.mktemp("apiserver")) as api:
        yield api


@pytest.fixture
def tree(tmp_path: Path) -> node.Tree:
    """Creates a node's tree before any tuning."""
    return node.make(tmp_path, node.node())
