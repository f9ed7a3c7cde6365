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
    """The command `corelane`."""
    return program("corelane")


@pytest.fixture
def start(binary: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers on free ports, which are killed at the end of a test."""
    with servers(binary) as start:
        yield start


@pytest.fixture(scope="module")
def starter(binary: Path) -> Iterator[Callable[..., Server]]:
    """As `start`, for fixtures that the tests of a module share."""
    with servers(binary) as start:
        yield start


@pytest.fixture(scope="module")
def server(starter: Callable[..., Server]) -> Server:
    """One server for the tests of a module that leave it as it was."""
    return starter()


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
    for each in made:
        each.remove()


@pytest.fixture(scope="session")
def postgres(new_postgres: Callable[..., Postgres]) -> Postgres:
    """The server that tests share; they leave it running."""
    return new_postgres()


@pytest.fixture
def database(postgres: Postgres) -> Database:
    """A new database on the server that tests share."""
    return postgres.database()


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apiserver.Api]:
    """An API server that every test may use, each with its own namespaces."""
    with apiserver.running(tmp_path_factory.mktemp("apiserver")) as api:
        yield api


@pytest.fixture
def tree(tmp_path: Path) -> node.Tree:
    """A node before anything was tuned."""
    return node.make(tmp_path, node.node())
