"""Idle connections: settings, metrics, lanes and memory of the real server."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stack import becomes
from stack.http import Client, ask
from stack.replica import Server

CLIENTS = 20


@contextmanager
def clients(server: Server) -> Iterator[list[Client]]:
    with ExitStack() as opened:
        made = [Client(server.url) for _ in range(CLIENTS)]
        for client in made:
            opened.callback(client.close)
            assert client.ask("/hello").status == 200
        yield made


def added_up(server: Server, series: str) -> float:
    return sum(n for name, n in server.metrics().items() if name.startswith(series))


def shown(server: Server) -> list[int]:
    lanes = json.loads(ask(server.admin, "/lanes").body)["lanes"]
    return [lane["connections_parked"] for lane in lanes]


def woken_by_bytes(server: Server) -> float:
    wakes = server.metrics().items()
    prefix = "corelane_connection_wakes_total{"
    return sum(n for name, n in wakes if name.startswith(prefix) and 'reason="bytes"' in name)


def test_idle_connections_are_parked_until_they_ask(start: Callable[..., Server]) -> None:
    server = start("--lanes", "2", "--park-after", "100ms")
    with clients(server) as made:
        becomes(lambda: added_up(server, "corelane_connections_parked{"), CLIENTS)
        assert sum(shown(server)) == CLIENTS
        assert added_up(server, "corelane_connections{") == CLIENTS
        woken = woken_by_bytes(server)
        for client in made:
            assert client.ask("/div/4").body == b"2"
        assert woken_by_bytes(server) == woken + CLIENTS
        becomes(lambda: added_up(server, "corelane_connections_parked{"), CLIENTS)
        assert added_up(server, "corelane_connection_parkings_total{") >= 2 * CLIENTS
        assert added_up(server, "corelane_connections_accepted_total{") == CLIENTS
    becomes(lambda: added_up(server, "corelane_connections{"), 0)


def test_none_is_parked_where_that_is_off(start: Callable[..., Server]) -> None:
    server = start("--lanes", "2", "--park-after", "off", "--timeouts.idle", "1s")
    view = json.loads(ask(server.admin, "/lanes").body)
    assert (view["park_after_ms"], view["moving"]) == (None, "parked-only")
    assert server.metrics()["corelane_config_park_after_seconds"] == float("inf")
    with clients(server):
        # These connections time out without having been parked.
        becomes(lambda: added_up(server, "corelane_connections{"), 0)
        assert added_up(server, "corelane_connection_parkings_total{") == 0


THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def memory(server: Server) -> dict[str, int]:
    """KiB by kind (proc_pid_smaps(5), smaps_rollup)."""
    lines = Path(f"/proc/{server.pid}/smaps_rollup").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return {field[0].rstrip(":"): int(field[1]) for field in fields}


@pytest.mark.skipif(
    THP.exists() and "[always]" in THP.read_text(),
    reason="huge pages come unasked, and some of them before main",
)
def test_a_server_that_nobody_asks_takes_little(start: Callable[..., Server]) -> None:
    server = start("--lanes", "1")
    assert ask(server.url, "/hello").status == 200
    found = memory(server)
    assert found["AnonHugePages"] == 0
    # A preallocated log queue alone would exceed this.
    assert found["Anonymous"] < 4 * 1024, found
