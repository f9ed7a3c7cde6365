"""Options of the tests of a running cluster."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rounds 10` upgrades the server and rolls it back ten times instead of once."""
    parser.addoption("--rounds", type=int, default=1, metavar="N", help="upgrades under load")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that uses `round` runs once for each of them."""
    if "round" in metafunc.fixturenames:
        metafunc.parametrize("round", range(metafunc.config.getoption("rounds")))
