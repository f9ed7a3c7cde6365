"""A server whose cpuset is rewritten, as the kubelet may do, says where its lane runs now."""

import json
import os
from collections.abc import Callable, Iterator

import pytest

from support import eventually
from support.cgroups import Cgroup, cgroup
from support.client import ask
from support.servers import Server


@pytest.fixture
def cpuset() -> Iterator[Cgroup]:
    """An empty cpuset."""
    with cgroup("cpuset", "cpuset.cpus") as made:
        # Without memory nodes a v1 cpuset takes no process.
        nodes = made.directory.parent / "cpuset.mems"
        if nodes.exists() and (text := nodes.read_text().strip()):
            made.write("cpuset.mems", text)
        yield made


def test_root_names_the_present_cpu(cpuset: Cgroup, start: Callable[..., Server]) -> None:
    first, second, *_ = [*sorted(os.sched_getaffinity(0)), None, None]
    if second is None:
        pytest.skip("one CPU: there is none to go to")
    server = start("--lanes", "1", "--pin", "on")

    def cpu() -> int:
        return json.loads(ask(server.url, "/").body)["cpu"]

    assert cpu() == first
    for other in (second, first):
        cpuset.write("cpuset.cpus", str(other))
        cpuset.take(server)
        eventually(lambda other=other: cpu() == other, f"a lane on CPU {other}")
    assert server.metrics()['corelane_lane_repins_total{lane="0"}'] == 2
