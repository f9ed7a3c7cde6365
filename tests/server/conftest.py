"""Shared by the PostgreSQL tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack.postgres import Postgres
from support.projects import Writer


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer.new(tmp_path)


@pytest.fixture(scope="session")
def _mortal(new_postgres: Callable[..., Postgres]) -> Postgres:
    return new_postgres()


@pytest.fixture
def mortal(_mortal: Postgres) -> Iterator[Postgres]:
    """A PostgreSQL that tests may kill, freeze or stop. It is restarted after each test."""
    yield _mortal
    _mortal.thaw()
    if not _mortal.pid:
        _mortal.start()
