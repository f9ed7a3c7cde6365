"""Ports for the processes of a test."""

import random
import socket


def free_ports(count: int) -> int:
    """The first of `count` free ports in a row, below those that clients are given."""
    while True:
        first = random.randrange(10000, 30000)
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
