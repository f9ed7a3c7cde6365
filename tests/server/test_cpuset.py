"""A server whose cpuset is rewritten, as the kubelet may do, says where its lane runs now."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import eventually
from support.client import ask
from support.servers import Server

CGROUPS = Path("/sys/fs/cgroup")


def base() -> Path:
    """Where a cgroup with a cpuset can be made: v1 below this process's own, v2 beside it."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    paths = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    for names, path in paths.items():
        if "cpuset" in names.split(","):
            return CGROUPS / "cpuset" / path[1:]
    if "" not in paths:
        raise FileNotFoundError("this process is in no cgroup of v2, nor in a cpuset of v1")
    own = CGROUPS / paths[""][1:]
    return own if own == CGROUPS else own.parent


class Cpuset:
    """A cgroup with a cpuset."""

    def __init__(self) -> None:
        self.directory = base() / f"corelane-test-{os.getpid()}"
        self.directory.mkdir()

    def prepare(self) -> None:
        """Gives it memory nodes, without which a v1 cpuset takes no process."""
        if not (self.directory / "cpuset.cpus").exists():
            raise FileNotFoundError("cgroups here have no cpuset")
        nodes = self.directory.parent / "cpuset.mems"
        if nodes.exists() and (text := nodes.read_text().strip()):
            (self.directory / "cpuset.mems").write_text(text)

    def allow(self, cpu: int) -> None:
        """Rewrites the cpuset."""
        (self.directory / "cpuset.cpus").write_text(str(cpu))

    def take(self, server: Server) -> None:
        """Moves a server in."""
        (self.directory / "cgroup.procs").write_text(str(server.process.pid))

    def remove(self) -> bool:
        """Whether it is gone; it is busy for a moment after its last process has ended."""
        try:
            self.directory.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True


@pytest.fixture
def cpuset() -> Iterator[Cpuset]:
    """An empty cpuset; its processes must have ended when it goes."""
    try:
        made = Cpuset()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        made.prepare()
    except OSError as error:
        made.directory.rmdir()
        pytest.skip(f"no cpuset can be made here: {error}")
    yield made
    eventually(made.remove)


def test_root_names_the_present_cpu(cpuset: Cpuset, start: Callable[..., Server]) -> None:
    first, second, *_ = [*sorted(os.sched_getaffinity(0)), None, None]
    if second is None:
        pytest.skip("one CPU: there is none to go to")
    server = start("--lanes", "1", "--pin", "on")

    def cpu() -> int:
        return json.loads(ask(server.url, "/").body)["cpu"]

    assert cpu() == first
    for other in (second, first):
        cpuset.allow(other)
        cpuset.take(server)
        eventually(lambda other=other: cpu() == other, f"a lane on CPU {other}")
    assert server.metrics()['corelane_lane_repins_total{lane="0"}'] == 2
