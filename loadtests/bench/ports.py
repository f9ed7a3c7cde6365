"""Keeps rounds of short connections from running out of ports.

Whoever closes first keeps the connection in TIME_WAIT for a minute. The servers close first here,
so the client's ports are free again at once; a client that closed first would hold its ports, and
the next round would have fewer. What the kernel counts shows whether anything went wrong.
"""

import time
from pathlib import Path

from tools import progress
from tools.errors import ToolError

TIME_WAIT = "06"
"""TCP_TIME_WAIT in /proc/net/tcp (include/net/tcp_states.h)."""

MOST_HELD = 1000
DEADLINE = 90.0

COUNTERS = {
    "TCPSynRetrans": "SYNs sent again",
    "ListenDrops": "connections dropped by a listener",
    "TCPTimeWaitOverflow": "TIME_WAIT table overflows",
}
"""Counters of nstat(8) that make a round slower when they grow, and what they count."""


def settle(port: int) -> None:
    """Waits until few local ports are held by finished connections to `port`."""
    deadline = time.monotonic() + DEADLINE
    while (held := _held(port)) > MOST_HELD:
        if time.monotonic() > deadline:
            raise ToolError(f"{held} local ports are held by finished connections to port {port}")
        progress.say("ports", f"waiting: {held} are held by finished connections to port {port}")
        time.sleep(5)


def _held(port: int) -> int:
    end = f":{port:04X}"
    with open("/proc/net/tcp") as table:
        rows = (line.split() for line in table)
        return sum(row[3] == TIME_WAIT and row[2].endswith(end) for row in rows)


def counters() -> dict[str, int]:
    """The kernel's counters since boot."""
    lines = Path("/proc/net/netstat").read_text().splitlines()
    found: dict[str, int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        found |= dict(zip(names.split()[1:], map(int, values.split()[1:]), strict=True))
    return {name: found[name] for name in COUNTERS}
