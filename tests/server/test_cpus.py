"""CPUs that change, CFS quotas, and the priority of slow lanes."""

import json
import os
from collections.abc import Callable, Iterator

import pytest

from stack import eventually
from stack.http import ask
from stack.replica import Server
from support.cgroups import Cgroup, cgroup
from support.seccomp import without


@pytest.fixture
def cpuset() -> Iterator[Cgroup]:
    with cgroup("cpuset", "cpuset.cpus") as made:
        # A v1 cpuset needs memory nodes first.
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
    # The admin thread may see an intermediate state, which counts as a second change.
    assert server.metrics()['corelane_lane_repins_total{lane="0"}'] >= 2


QUOTA = 10_000
"""Microseconds per 100 ms: any work exceeds this quota."""

SERIES = [
    f"corelane_cpu_{name}_total" for name in ("periods", "throttled_periods", "throttled_seconds")
]


@pytest.fixture
def limited() -> Iterator[Cgroup]:
    with cgroup("cpu", "cpu.cfs_quota_us", "cpu.max") as made:
        if made.has("cpu.max"):
            made.write("cpu.max", f"{QUOTA} 100000")
        else:
            made.write("cpu.cfs_quota_us", str(QUOTA))
        yield made


def counted(limited: Cgroup) -> list[float]:
    """The kernel's counters: periods, throttled periods, seconds."""
    words = dict(line.split() for line in limited.read("cpu.stat").splitlines())
    time = int(words["throttled_usec"]) / 1e6 if "throttled_usec" in words else None
    seconds = int(words["throttled_time"]) / 1e9 if time is None else time
    return [float(words["nr_periods"]), float(words["nr_throttled"]), round(seconds, 9)]


def shown(server: Server) -> list[float]:
    metrics = server.metrics()
    # Rounded to nanoseconds, because floats differ beyond that.
    return [round(metrics[series], 9) for series in SERIES]


def test_throttling_is_shown_as_the_kernel_counts_it(
    limited: Cgroup, start: Callable[..., Server]
) -> None:
    server = start("--lanes", "1", "--work.max-ops", "1000000000")
    limited.take(server)
    before = shown(server)

    def all_grow() -> bool:
        # Throttling requires using up the quota, which can take several requests on a busy machine.
        assert ask(server.url, "/work?ops=10000000").status == 200
        least, now, most = counted(limited), shown(server), counted(limited)
        assert all(a <= b <= c for a, b, c in zip(least, now, most, strict=True)), (
            least,
            now,
            most,
        )
        return all(a > b for a, b in zip(now, before, strict=True))

    eventually(all_grow)


POLICIES = ("sched_setscheduler", "sched_setattr")

OWN = os.getpriority(os.PRIO_PROCESS, 0)
"""Inherited by the server."""


@pytest.mark.parametrize(
    ("rejected", "priority"),
    [
        ((), ("idle", os.SCHED_IDLE, 0)),
        (POLICIES, ("nice", os.SCHED_OTHER, 19)),
        ((*POLICIES, "setpriority"), ("normal", os.SCHED_OTHER, OWN)),
    ],
    ids=["idle", "nice", "normal"],
)
def test_a_slow_lane_has_the_lowest_priority_that_is_allowed(
    start: Callable[..., Server], rejected: tuple[str, ...], priority: tuple[str, int, int]
) -> None:
    flags = ["--lanes", "1", "--slow-lanes.mode", "on", "--slow-lanes.expensive", "/work"]
    server = start(*flags, within=without(*rejected) if rejected else ())
    # The priority is lowered before the first request.
    assert ask(server.url, "/work?ops=1").status == 200
    assert server.metrics()['corelane_slow_requests_total{lane="0"}'] == 1
    thread = int(server.threads()["slow-0"].name)
    found = (os.sched_getscheduler(thread), os.getpriority(os.PRIO_PROCESS, thread))
    (lane,) = json.loads(ask(server.admin, "/lanes").body)["lanes"]
    assert (lane["slow"]["priority"], *found) == priority
    assert server.metrics()[f'corelane_slow_lane_info{{lane="0",priority="{priority[0]}"}}'] == 1
    others = os.getpriority(os.PRIO_PROCESS, int(server.threads()["lane-0"].name))
    assert others == OWN, "the lane keeps its own"
