"""The network that a run has for itself, its settings, and what the kernel tells of it."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

from loadtests.bench.tuning.networks import COUNTERS
from tools.errors import ToolError

SYSCTLS = {
    "net.core.somaxconn": "16384",
    "net.ipv4.tcp_max_syn_backlog": "16384",
    "net.ipv4.ip_local_port_range": "30000 65535",
}
"""As the node tuner has them in its profile web-10k with the unsafe ones; the ports begin above those that
servers are given here (loadtests/bench/free_ports.py)."""

BACKLOG = 16384
"""Accept queues that servers ask for; the kernel caps them at somaxconn."""

PORTS = 25_000
"""Connections from one address to one listener; below what either range of ports has."""

SPARE_FILES = 500
"""Descriptors that a process keeps for other things than the connections of a run."""


def enter(argv: list[str]) -> list[str]:
    """The command that runs another one in a network of its own, where that is allowed."""
    return ["unshare", "--net", *argv] if own_network() else argv


def own_network() -> bool:
    """Whether this user can make a network namespace."""
    return os.geteuid() == 0 and shutil.which("unshare") is not None


def prepare(outside: str) -> bool:
    """Brings the loopback up and writes the settings, unless this is still the network `outside`.

    All of these belong to a network namespace (Documentation/admin-guide/sysctl/net.rst, ip-sysctl.rst).
    """
    if network() == outside:
        return False
    result = subprocess.run(
        ["ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise ToolError(f"ip link set lo up failed: {result.stderr.strip()}")
    for name, value in SYSCTLS.items():
        (Path("/proc/sys") / name.replace(".", "/")).write_text(value)
    return True


def network() -> str:
    """The name of this process's network namespace (namespaces(7))."""
    return os.readlink("/proc/self/ns/net")


def most_files() -> int:
    """Connections that one process may hold; raises the soft limit, which children inherit."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # More than 30,000 in one process is the work of one thread for too long.
    return min(hard - SPARE_FILES, 30_000)


def counters() -> dict[str, int]:
    """What the kernel counted in this network, and packets dropped on the whole machine."""
    found: dict[str, int] = {}
    for name in ("netstat", "snmp"):
        lines = Path(f"/proc/self/net/{name}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            found |= dict(zip(names.split()[1:], map(int, values.split()[1:]), strict=True))
    dropped = Path("/proc/net/softnet_stat").read_text().splitlines()
    packets = sum(int(line.split()[1], 16) for line in dropped)
    return {name: found.get(name, 0) for name in COUNTERS} | {"dropped_packets": packets}


def since(before: dict[str, int]) -> dict[str, int]:
    """What it counted since."""
    return {name: value - before[name] for name, value in counters().items()}


def kernel_kib() -> dict[str, float]:
    """What the kernel has for all sockets of the machine: their objects, and their buffers."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    rows = Path("/proc/net/sockstat").read_text().splitlines()
    tcp = next(row.split() for row in rows if row.startswith("TCP:"))
    # In pages (net/ipv4/proc.c).
    buffers = int(tcp[tcp.index("mem") + 1]) * resource.getpagesize() / 1024
    return {"slab": float(fields["Slab"].split()[0]), "buffers": buffers}


def connections() -> int:
    """TCP sockets in use in this network."""
    rows = Path("/proc/net/sockstat").read_text().splitlines()
    tcp = next(row.split() for row in rows if row.startswith("TCP:"))
    return int(tcp[tcp.index("inuse") + 1])
