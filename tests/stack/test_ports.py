"""Which ports the processes of benchmarks and tests are given."""

import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from stack import REPOSITORY
from stack.ports import BLOCK, VARIABLE, free_ports
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


DRAW = """
import sys

sys.path[:0] = ["", "hack"]
from stack.ports import free_ports

print(free_ports(3), flush=True)
sys.stdin.read()
"""


def test_no_process_draws_from_a_block_of_another() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    argv = [sys.executable, "-c", DRAW]
    with ExitStack() as running:
        # The context of a process closes its input, which ends it.
        others = [
            running.enter_context(subprocess.Popen(argv, cwd=REPOSITORY, **pipes)) for _ in range(3)
        ]
        drawn = [free_ports(), *(int(other.stdout.readline()) for other in others)]
    assert len({port // BLOCK for port in drawn}) == len(drawn)
