"""The fixtures that every test may use, and the tier of each test.

A test without a marker is part of `make test`; `fast` ones are part of `make check`, `nightly` ones of `make test-all`.
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
    # After those that it uses, for the details that pytest gives of their assertions.
    "support.monitoring",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where tests of pages leave their pictures."""
    folder = Path(__file__).parent.parent / ".run" / "screenshots"
    parser.addoption("--screenshots", type=Path, default=folder, metavar="FOLDER")


@pytest.fixture(scope="session")
def screenshots(pytestconfig: pytest.Config) -> Path:
    """The folder for pictures."""
    return pytestconfig.getoption("screenshots").resolve()


def pytest_sessionstart() -> None:
    """SIGTERM ends a run as Ctrl-C does, so that fixtures end what they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


NIGHTLY_FIXTURES = {"api", "booted", "housed", "large"}
"""Fixtures that need Kubernetes or a kernel in QEMU: whatever uses one is nightly."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs one of `NIGHTLY_FIXTURES`, even through another fixture."""
    for item in items:
        if NIGHTLY_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.nightly)
