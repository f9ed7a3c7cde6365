"""Network namespaces that this machine reaches by a link. They need root."""

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
"""The command prefix that runs a command in its own network."""


@dataclass(frozen=True)
class Network:
    """The network of a process, and its address there."""

    pid: int
    address: str

    @property
    def inside(self) -> list[str]:
        """The command prefix that runs a command there."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def ip(self, *words: str) -> None:
        """Runs a command of ip(8) there."""
        subprocess.run([*self.inside, tool("ip"), *words], check=True)


def connect(pid: int, name: str, number: int) -> Network:
    """Gives a process that `ALONE` runs an address, by a link of this name."""
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
    """A network without anything, until the end of the block; the test is skipped where none can be made."""
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    # Of this process alone: another run may be under way on the machine.
    name, number = f"corelane{os.getpid()}", 1 + os.getpid() % 250
    with subprocess.Popen([*ALONE, "sleep", "infinity"]) as process:
        try:
            yield connect(process.pid, name, number)
        finally:
            # Not left to the end of the namespace, which the kernel does later.
            subprocess.run([tool("ip"), "link", "delete", name], check=False)
            process.kill()
