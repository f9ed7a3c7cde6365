"""Network namespaces linked to this machine; needs root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import eventually
from tools.resolve import tool

ALONE = ("unshare", "--net")
"""Prefix for a new network namespace."""


@dataclass(frozen=True)
class Network:
    """A process's network namespace, and its address there."""

    pid: int
    address: str

    @property
    def inside(self) -> list[str]:
        """Prefix for commands in the network."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def ip(self, *words: str) -> None:
        subprocess.run([*self.inside, tool("ip"), *words], check=True)


def connect(pid: int, name: str, number: int) -> Network:
    """Gives a process that was started with `ALONE` a link and an address."""
    place = Path(f"/proc/{pid}/ns/net")
    own = Path("/proc/self/ns/net").readlink()
    eventually(lambda: place.readlink() != own, "a network namespace")
    network = Network(pid, f"10.222.{number}.2")
    ip = tool("ip")
    for words in (
        ("link", "add", name, "type", "veth", "peer", "eth0", "netns", f"{pid}"),
        ("address", "add", f"10.222.{number}.1/30", "dev", name),
        ("link", "set", name, "up"),
    ):
        subprocess.run([ip, *words], check=True)
    network.ip("address", "add", f"{network.address}/30", "dev", "eth0")
    network.ip("link", "set", "eth0", "up")
    network.ip("link", "set", "lo", "up")
    return network


@contextmanager
def network() -> Iterator[Network]:
    """Yields an empty network, or skips the test if that is impossible."""
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    # Unique per process, because runs may overlap.
    name, number = f"corelane{os.getpid()}", 1 + os.getpid() % 250
    with subprocess.Popen([*ALONE, "sleep", "infinity"]) as process:
        try:
            yield connect(process.pid, name, number)
        finally:
            # The kernel would remove the link with a delay.
            subprocess.run([tool("ip"), "link", "delete", name], check=False)
            process.kill()
