"""Ports for the processes of a benchmark or a test."""

import os
import random
import socket
import warnings
from functools import cache
from pathlib import Path
from threading import Lock

from tools.errors import ToolError

VARIABLE = "TEST_PORTS"
"""Environment variable with the range to draw from. Not named CORELANE_, because the server rejects
such variables unless they are its settings.
"""

USUAL = (10000, 29999)
"""The default range, below the ports that the kernel assigns by default (32768 to 60999)."""

LEAST = 4000

TAKEN = range(17990, 19011)
"""Envoy Gateway listens on some of these ports, which cannot be configured."""

BLOCK = 200
"""Consecutive ports that belong to one process until it ends.

A port is drawn while it is free and used later. Until then, no other process of tests or benchmarks
draws it: neither another pytest worker, nor a program that a test runs, nor another run.
"""

_blocks: dict[int, socket.socket] = {}
"""This process's blocks by their first port, each with the socket that claims it."""

_given: set[int] = set()
_lock = Lock()


def free_ports(count: int = 1, address: str = "127.0.0.1") -> int:
    """Returns the first of `count` consecutive ports that are free at an IPv4 address. No port is
    returned twice.

    For 0.0.0.0, the ports are free at every address.
    """
    low, high = bounds()
    with _lock:
        others = list({*range(low - low % BLOCK, high + 1, BLOCK)} - {*_blocks})
        random.shuffle(others)
        for block in [*_blocks, *others]:
            ports = range(max(block, low), min(block + BLOCK, high + 1))
            if block not in _blocks and not _claim(block):
                continue
            for first in ports[: max(0, len(ports) - count + 1)]:
                row = range(first, first + count)
                # Binding comes last because it costs the most.
                if not any(port in TAKEN or port in _given for port in row) and all(
                    _is_free(address, port) for port in row
                ):
                    _given.update(row)
                    return first
    raise ToolError(f"found no {count} consecutive free ports in {low}-{high} ({VARIABLE})")


def bounds() -> tuple[int, int]:
    text = os.environ.get(VARIABLE)
    if text is None:
        return _default()
    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) < 65536):
        raise ToolError(f"{VARIABLE}={text}: expected a port range such as {_text(USUAL)}")
    return int(low), int(high)


@cache
def _default() -> tuple[int, int]:
    """A range without ports that the kernel assigns to connections, or to listeners on port 0.

    Such a port may be free when drawn and the source of a connection when used.
    """
    settings = Path("/proc/sys/net/ipv4")
    first, last = map(int, (settings / "ip_local_port_range").read_text().split())
    reserved = (settings / "ip_local_reserved_ports").read_text().strip()
    parts = [part.partition("-") for part in reserved.split(",") if part]
    kept = {port for low, _, high in parts for port in range(int(low), int(high or low) + 1)}
    assigned = {*range(first, last + 1)} - kept
    for low, high in (USUAL, (1024, first - 1), (last + 1, 65535)):
        if high - low >= LEAST - 1 and assigned.isdisjoint(range(low, high + 1)):
            return low, high
    warnings.warn(
        f"the kernel may assign a port in {_text(USUAL)} to a connection before a test uses it: "
        f"set net.ipv4.ip_local_reserved_ports={_text(USUAL)}",
        stacklevel=2,
    )
    return USUAL


def _text(ports: tuple[int, int]) -> str:
    return f"{ports[0]}-{ports[1]}"


def _claim(block: int) -> bool:
    """Claims the block if it is free; the kernel releases it when the process ends."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        # An abstract name is scoped like ports: to the network namespace (unix(7)).
        claim.bind(f"\0corelane-ports-{block}")
    except OSError:
        claim.close()
        return False
    _blocks[block] = claim
    return True


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
