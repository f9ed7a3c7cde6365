"""Which ports the processes of benchmarks and tests are given."""

import socket

import pytest

from loadtests.bench.free_ports import VARIABLE, free_ports
from tools.errors import ToolError


def test_rows_are_in_the_range_and_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    # No other run draws from these: a port that is tried is in use for a moment.
    monkeypatch.setenv(VARIABLE, "30000-30999")
    rows = [range(first, first + 3) for first in (free_ports(3) for _ in range(50))]
    given = [port for row in rows for port in row]
    assert len(set(given)) == 150
    assert min(given) >= 30000
    assert max(given) <= 30999


def test_a_port_that_is_in_use_at_another_address_is_not_free_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.3", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv(VARIABLE, f"{port}-{port}")
        with pytest.raises(ToolError, match=f"no 1 free ports in a row found in {port}-{port}"):
            free_ports(address="0.0.0.0")
        assert free_ports(address="127.0.0.2") == port


def test_ports_of_envoy_gateway_are_given_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "18000-18002")
    with pytest.raises(ToolError, match="no 1 free ports"):
        free_ports()


@pytest.mark.parametrize("text", ["", "many", "10000", "20000-10000", "65000-65536"])
def test_what_is_no_range_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ToolError, match=f"{VARIABLE}={text} is no range of ports"):
        free_ports()
