"""What tests of the node tuner share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import trees
from support.apiserver import Api
from support.slices import Wire
from support.trees import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A node before anything was tuned."""
    return trees.make(tmp_path, trees.node())


@pytest.fixture
def wire(api: Api, tmp_path: Path) -> Iterator[Wire]:
    """The way to the API server, open."""
    way = Wire(api, tmp_path)
    way.join()
    yield way
    way.cut()
