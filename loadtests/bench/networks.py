"""Network namespaces that are gone at the end, their settings, and the counters that the kernel keeps for them."""

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools import resolve
from tools.errors import ToolError

SERVER, CLIENT = "10.9.0.1", "10.9.0.2"
LENGTH = 30
PATIENCE = 10.0

COUNTERS = {
    "TCPSynRetrans": "SYNs sent again",
    "RetransSegs": "segments sent again",
    "ListenOverflows": "connections for which the accept queue had no room",
    "ListenDrops": "connection attempts that the listener dropped",
    "TCPReqQFullDrop": "SYNs that the SYN queue dropped",
    "SyncookiesSent": "SYN cookies",
    "AttemptFails": "connection attempts that failed",
    "TCPTimeWaitOverflow": "finished connections for which the TIME_WAIT table had no room",
}
"""Counters of nstat(8), in /proc/net/netstat and /proc/net/snmp."""


@dataclass(frozen=True)
class Namespace:
    """A network namespace, by the process that holds it."""

    pid: int

    def inside(self, *argv: str | Path) -> list[str]:
        """The command that runs another one in here."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *map(str, argv)]

    def write(self, sysctl: str, value: str) -> None:
        """Sets a sysctl of this namespace; the kernel shows none of the whole machine here."""
        _run(self.inside("sh", "-c", 'printf %s "$2" >"$1"', "sh", _file(sysctl), value))

    def read(self, sysctl: str) -> str:
        """The value of a sysctl in here."""
        return " ".join(_run(self.inside("cat", _file(sysctl))).split())

    def counters(self) -> dict[str, int]:
        """What the kernel counted in here since it was made."""
        return counters(self.pid)

    def listens(self, port: int) -> bool:
        """Whether a socket in here listens at the port (proc_net_tcp(5): state 0A)."""
        lines = Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]
        rows = [line.split() for line in lines]
        return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


@dataclass(frozen=True)
class Pair:
    """The two sides."""

    server: Namespace
    client: Namespace

    def counters(self) -> dict[str, int]:
        """What was counted on both sides together."""
        server, client = self.server.counters(), self.client.counters()
        return {name: server[name] + client[name] for name in COUNTERS}


@contextmanager
def joined() -> Iterator[Pair]:
    """Two new namespaces with a link between them."""
    if os.geteuid() != 0:
        raise ToolError("only root can make network namespaces")
    ip = resolve.ensure(["ip"])["ip"]
    with ExitStack() as stack:
        server, client = (stack.enter_context(_held()) for _ in range(2))
        argv = f"link add server type veth peer name client netns {client.pid}".split()
        _run(server.inside(ip, *argv))
        for side, device, address in ((server, "server", SERVER), (client, "client", CLIENT)):
            _run(side.inside(ip, "address", "add", f"{address}/{LENGTH}", "dev", device))
            for name in ("lo", device):
                _run(side.inside(ip, "link", "set", name, "up"))
        yield Pair(server, client)


@contextmanager
def _held() -> Iterator[Namespace]:
    # It ends with the pipe, so with this process in any case.
    process = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, process_group=0)
    try:
        namespace = Path(f"/proc/{process.pid}/ns/net")
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + PATIENCE
        while os.readlink(namespace) == own:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ToolError("unshare --net made no network namespace")
            time.sleep(0.005)
        yield Namespace(process.pid)
    finally:
        process.kill()
        process.communicate()


def counters(pid: int | str = "self") -> dict[str, int]:
    """What the kernel counted in the network namespace of a process."""
    found: dict[str, int] = {}
    for name in ("netstat", "snmp"):
        lines = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            found |= dict(zip(names.split()[1:], map(int, values.split()[1:]), strict=True))
    return {name: found.get(name, 0) for name in COUNTERS}


class Kernel:
    """What the kernel counts from now on, by default in the network namespace of this process."""

    def __init__(self, read: Callable[[], dict[str, int]] | None = None) -> None:
        self._counters = read or counters
        self._before = self._now()

    def counted(self) -> dict[str, int]:
        """By how much each counter has grown."""
        return {name: value - self._before[name] for name, value in self._now().items()}

    def _now(self) -> dict[str, int]:
        return {**self._counters(), "dropped_packets": _dropped_packets()}


def _dropped_packets() -> int:
    """Packets that found a CPU's input queue full, on the whole machine: netdev_max_backlog of
    Documentation/admin-guide/sysctl/net.rst, which no namespace has of its own."""
    lines = Path("/proc/net/softnet_stat").read_text().splitlines()
    return sum(int(line.split()[1], 16) for line in lines)


def _file(sysctl: str) -> Path:
    return Path("/proc/sys") / sysctl.replace(".", "/")


def _run(argv: list[str]) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"{' '.join(argv)} failed: {result.stderr.strip()}")
    return result.stdout


SYSCTLS = {
    "net.core.somaxconn": "16384",
    "net.ipv4.tcp_max_syn_backlog": "16384",
    "net.ipv4.ip_local_port_range": "30000 65535",
}
"""As the node tuner has them in its profile web-10k with the unsafe ones; the ports begin above those that
servers are given here (stack/ports.py). All of them belong to a namespace."""

BACKLOG = 16384
"""Accept queues that servers request. The kernel limits them to somaxconn."""

SPARE_FILES = 500
"""Descriptors that a process keeps for other things than the connections of a run."""

CLONE_NEWNET = 0x40000000
SETTLED_WITHIN = 10.0


@contextmanager
def own() -> Iterator[None]:
    """This process and what it starts have a network namespace of their own meanwhile."""
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
    """Connections that one process may hold."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # More than 30,000 in one process is the work of one thread for too long.
    return min(hard - SPARE_FILES, 30_000)


def kernel_kib() -> dict[str, float]:
    """What the kernel has for all sockets of the machine: their objects, and their buffers."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    # In pages (net/ipv4/proc.c).
    buffers = _sockets("mem") * resource.getpagesize() / 1024
    return {"slab": float(fields["Slab"].split()[0]), "buffers": buffers}


def settle() -> None:
    """Waits until no more connections end: those of clients have then, a gateway keeps its own."""
    deadline = time.monotonic() + SETTLED_WITHIN
    before = None
    while (now := _sockets("inuse")) != before:
        if time.monotonic() > deadline:
            raise ToolError(f"connections still end after {SETTLED_WITHIN:.0f} s")
        before = now
        time.sleep(0.05)


def _sockets(what: str) -> int:
    """A figure of TCP in /proc/net/sockstat."""
    rows = Path("/proc/net/sockstat").read_text().splitlines()
    tcp = next(row.split() for row in rows if row.startswith("TCP:"))
    return int(tcp[tcp.index(what) + 1])
