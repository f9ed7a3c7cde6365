"""Network namespaces that this machine reaches by a link, which require root."""

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
    """The network of a process, and its address in that network."""

    pid: int
    address: str

    @property
    def inside(self) -> list[str]:
        """Returns the command prefix that runs a command in the network."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def ip(self, *words: str) -> None:
        """Runs an ip(8) command in the network."""
        subprocess.run([*self.inside, tool("ip"), *words], check=True)


def connect(pid: int, name: str, number: int) -> Network:
    """Gives an address to a process started with `ALONE`, by a link with this name."""
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
    """Yields an empty network until the end of the block; skips the test if none can be created."""
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    # The name contains this process's pid, because another run may use the machine.
    name, number = f"corelane{os.getpid()}", 1 + os.getpid() % 250
    with subprocess.Popen([*ALONE, "sleep", "infinity"]) as process:
        try:
            yield connect(process.pid, name, number)
        finally:
            # Removed here, because the kernel would remove it only some time after the namespace.
            subprocess.run([tool("ip"), "link", "delete", name], check=False)
            process.kill()
