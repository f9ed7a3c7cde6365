"""Temporary network namespaces, their settings, and their kernel counters."""

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import resolve
from tools.errors import ToolError

COUNTERS = ("TCPSynRetrans", "RetransSegs", "ListenOverflows", "ListenDrops")
"""Counters of nstat(8), in /proc/net/netstat and /proc/net/snmp."""


def _counters() -> dict[str, int]:
    found: dict[str, int] = {}
    for name in ("netstat", "snmp"):
        lines = Path(f"/proc/self/net/{name}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            found |= dict(zip(names.split()[1:], map(int, values.split()[1:]), strict=True))
    return {name: found[name] for name in COUNTERS}


class Kernel:
    def __init__(self) -> None:
        self._before = self._now()

    def counted(self) -> dict[str, int]:
        return {name: value - self._before[name] for name, value in self._now().items()}

    def _now(self) -> dict[str, int]:
        return {**_counters(), "dropped_packets": _dropped_packets()}


def _dropped_packets() -> int:
    """Packets dropped on the entire machine because a CPU's input queue was full.
    netdev_max_backlog (Documentation/admin-guide/sysctl/net.rst) is not per namespace.
    """
    lines = Path("/proc/net/softnet_stat").read_text().splitlines()
    return sum(int(line.split()[1], 16) for line in lines)


SYSCTLS = {
    "net.core.somaxconn": "16384",
    "net.ipv4.tcp_max_syn_backlog": "16384",
    "net.ipv4.ip_local_port_range": "30000 65535",
}
"""Values of the node tuner's `web-10k` profile, including unsafe sysctls. The port range starts
above the servers' ports here (stack/ports.py). All belong to a namespace.
"""

BACKLOG = 16384
"""Accept queues that servers request. The kernel limits them to somaxconn."""

SPARE_FILES = 500
"""Descriptors that a process needs in addition to the connections of a run."""

CLONE_NEWNET = 0x40000000
SETTLED_WITHIN = 10.0


@contextmanager
def own() -> Iterator[None]:
    """Moves this process and its children into a separate network namespace for the duration of the
    context."""
    ip = resolve.ensure(["ip"])["ip"]
    libc = ctypes.CDLL(None, use_errno=True)
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise ToolError(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            subprocess.run([ip, "link", "set", "lo", "up"], check=True)
            for name, value in SYSCTLS.items():
                (Path("/proc/sys") / name.replace(".", "/")).write_text(value)
            yield
        finally:
            libc.setns(outside, CLONE_NEWNET)
    finally:
        os.close(outside)


def most_connections() -> int:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # More than 30,000 connections in one process would keep its thread busy for too long.
    return min(hard - SPARE_FILES, 30_000)


def kernel_kib() -> dict[str, float]:
    """Kernel memory for all sockets of the machine: objects and buffers."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    # In pages (net/ipv4/proc.c).
    buffers = _sockets("mem") * resource.getpagesize() / 1024
    return {"slab": float(fields["Slab"].split()[0]), "buffers": buffers}


def settle() -> None:
    """Waits until the number of sockets is stable: clients have then closed theirs, and a gateway
    keeps its own.
    """
    deadline = time.monotonic() + SETTLED_WITHIN
    before = None
    while (now := _sockets("inuse")) != before:
        if time.monotonic() > deadline:
            raise ToolError(f"connections still end after {SETTLED_WITHIN:.0f} s")
        before = now
        time.sleep(0.05)


def _sockets(what: str) -> int:
    rows = Path("/proc/net/sockstat").read_text().splitlines()
    tcp = next(row.split() for row in rows if row.startswith("TCP:"))
    return int(tcp[tcp.index(what) + 1])
