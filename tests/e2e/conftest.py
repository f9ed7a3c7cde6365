"""Options of the tests of a running cluster, and which of them CI runs on each change."""

import pytest

ESSENTIAL = {"test_pinning", "test_rollouts", "test_disruptions", "test_services"}
"""Modules that CI runs on each change; the others are nightly."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rounds 10` upgrades the server and rolls it back ten times instead of once.

    `--measure 5` scales up and down five times by EndpointSlices and five times by DNS.
    `--ends` is for a cluster that ends with the tests.
    """
    parser.addoption("--rounds", type=int, default=1, metavar="N", help="upgrades under load")
    parser.addoption("--measure", type=int, default=0, metavar="N", help="scalings of each way")
    parser.addoption("--ends", action="store_true", help="leave nothing deployed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that uses `round` runs once for each of them."""
    if "measured" in metafunc.fixturenames:
        rounds = metafunc.config.getoption("measure")
        ways = ["eds"] * (rounds or 1) + ["dns"] * rounds
        metafunc.parametrize("measured", ways, ids=lambda way: way)
    if "round" in metafunc.fixturenames:
        metafunc.parametrize("round", range(metafunc.config.getoption("rounds")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is not essential as nightly."""
    for item in items:
        if item.path.parent.name == "e2e" and item.path.stem not in ESSENTIAL:
            item.add_marker(pytest.mark.nightly)
