"""Fixtures for the processes of `stack`.

`start` starts servers; `server` is shared by a module. `database` is a new database on a shared
PostgreSQL; tests that stop it or need TLS use `new_postgres`:

def test_something(database, start): server = start(*database.flags())
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
    return program("corelane-server")


@pytest.fixture(scope="session")
def command() -> Path:
    return program("corelane")


@pytest.fixture
def start(binary: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers on free ports and kills them after the test."""
    with servers(binary) as start:
        yield start


@pytest.fixture(scope="module")
def starter(binary: Path) -> Iterator[Callable[..., Server]]:
    """Module-scoped `start`."""
    with servers(binary) as start:
        yield start


@pytest.fixture(scope="module")
def server(starter: Callable[..., Server]) -> Server:
    """A server for tests that do not change it."""
    return starter()


@pytest.fixture(scope="session")
def new_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Postgres]]:
    """new_postgres(tls=True) starts a PostgreSQL. Every PostgreSQL is removed at the end."""
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
    """Shared; must not be stopped."""
    return new_postgres()


@pytest.fixture
def database(postgres: Postgres) -> Database:
    return postgres.database()


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apiserver.Api]:
    """Shared; every test uses its own namespaces."""
    with apiserver.running(tmp_path_factory.mktemp("apiserver")) as api:
        yield api


@pytest.fixture
def tree(tmp_path: Path) -> node.Tree:
    """An untuned node."""
    return node.make(tmp_path, node.node())
