"""Cgroups of this machine that tests put a server into."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import eventually
from support.servers import Server

MOUNTED = Path("/sys/fs/cgroup")


def base(controller: str) -> Path:
    """Where a cgroup with this controller can be made: v1 below this process's own, v2 beside it."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    paths = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    for names, path in paths.items():
        if controller in names.split(","):
            return MOUNTED / controller / path[1:]
    if "" not in paths:
        raise FileNotFoundError(f"this process is in no cgroup of v2, nor in a {controller} of v1")
    own = MOUNTED / paths[""][1:]
    return own if own == MOUNTED else own.parent


class Cgroup:
    """A cgroup that is empty at first; its processes must have ended when it goes."""

    def __init__(self, controller: str) -> None:
        self.directory = base(controller) / f"corelane-test-{controller}-{os.getpid()}"
        self.directory.mkdir()

    def has(self, name: str) -> bool:
        """Whether cgroups here have this file."""
        return (self.directory / name).exists()

    def read(self, name: str) -> str:
        """What the kernel says in one of its files."""
        return (self.directory / name).read_text()

    def write(self, name: str, text: str) -> None:
        """Sets what one of its files is about."""
        (self.directory / name).write_text(text)

    def take(self, server: Server) -> None:
        """Moves a server in."""
        self.write("cgroup.procs", str(server.process.pid))

    def remove(self) -> bool:
        """Whether it is gone; it is busy for a moment after its last process has ended."""
        try:
            self.directory.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True


@contextmanager
def cgroup(controller: str, *files: str) -> Iterator[Cgroup]:
    """A cgroup with one of these files; where none can be made the test is skipped."""
    try:
        made = Cgroup(controller)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        if not any(made.has(file) for file in files):
            pytest.skip(f"cgroups here have no {controller}")
        yield made
    finally:
        eventually(made.remove)
