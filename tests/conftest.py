"""Shared fixtures, and the tier of each test.

Tests run in `make test` by default. Tests marked `fast` also run in `make check`, and tests marked
`nightly` run only in `make test-all`.
"""

import signal
from pathlib import Path

import pytest

pytest_plugins = [
    "support.browser",
    "support.machines",
    "support.platforms",
    "support.releases",
    "support.fixtures",
    "support.slices",
    "support.tuning",
    # Listed after its dependencies, so that pytest can rewrite their assertions.
    "support.monitoring",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    folder = Path(__file__).parent.parent / ".run" / "screenshots"
    parser.addoption("--screenshots", type=Path, default=folder, metavar="FOLDER")


@pytest.fixture(scope="session")
def screenshots(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.getoption("screenshots").resolve()


def pytest_sessionstart() -> None:
    """Treats SIGTERM like Ctrl-C, so that fixtures clean up."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


NIGHTLY_FIXTURES = {"api", "booted", "housed", "large"}
"""These fixtures need Kubernetes or a QEMU kernel, so tests that use them are nightly."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that use one of `NIGHTLY_FIXTURES`, even indirectly, as nightly."""
    for item in items:
        if NIGHTLY_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.nightly)
