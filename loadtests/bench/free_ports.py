"""Ports for the processes of a benchmark or a test."""

import os
import random
import socket
from threading import Lock

from tools.errors import ToolError

VARIABLE = "TEST_PORTS"
"""Environment variable with the range to draw from. Two runs side by side have one each, because a
port that is free when it is drawn can be the other's when it is used. Not CORELANE_...: the server
refuses such a variable if it is none of its settings."""

DEFAULT = "10000-29999"
"""Below the ports that clients are given (ip_local_port_range)."""

TAKEN = range(17990, 19011)
"""Envoy Gateway listens on some of these, which cannot be chosen."""

ATTEMPTS = 10_000

_given: set[int] = set()
_lock = Lock()


def free_ports(count: int = 1, address: str = "127.0.0.1") -> int:
    """The first of `count` ports in a row that are free at an IPv4 address; none is given twice.

    At 0.0.0.0: free at every address.
    """
    low, high = bounds()
    for _ in range(ATTEMPTS):
        first = random.randrange(low, high + 1)
        row = range(first, first + count)
        with _lock:
            # Binding is last: it costs the most.
            if row[-1] > high or any(port in TAKEN or port in _given for port in row):
                continue
            if all(_is_free(address, port) for port in row):
                _given.update(row)
                return first
    raise ToolError(f"no {count} free ports in a row found in {low}-{high} ({VARIABLE})")


def bounds() -> tuple[int, int]:
    """The first and the last port to draw from."""
    text = os.environ.get(VARIABLE, DEFAULT)
    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) < 65536):
        raise ToolError(f"{VARIABLE}={text} is no range of ports such as {DEFAULT}")
    return int(low), int(high)


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
