"""The server on unusual machines: cgroup v2, SMT, two NUMA nodes, CPU hotplug.

All tests share one machine with the CPUs 0-1 and 2-3 (cores of node 0) and 4-5 and 6-7 (node 1), in
separate cgroups.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from machines.initramfs import PYTHON
from stack import eventually
from support.machines import ANSWER, Machine
from tools.errors import ToolError

ROOT = "/sys/fs/cgroup"
PARENT, OWN = f"{ROOT}/pods", f"{ROOT}/pods/server"
LOG = "/run/server.log"
ADMIN = "http://127.0.0.1:8081"


@dataclass(frozen=True)
class Seen:
    lanes: list[int | None]
    metrics: dict[str, float]
    masks: dict[str, str]
    """Thread affinities as the kernel reports them."""

    @property
    def cpus(self) -> dict[str, float]:
        sources = ("online", "cpuset", "affinity", "quota")
        series = {source: f'corelane_cpus{{source="{source}"}}' for source in sources}
        return {
            source: self.metrics[name] for source, name in series.items() if name in self.metrics
        }


@dataclass(frozen=True)
class Inside:
    machine: Machine
    pid: int
    cgroup: str

    def look(self) -> Seen:
        """Collected in one command, because each command is slow."""
        text = self.machine.good(f"""
            wget -qO- {ADMIN}/lanes; echo; echo ---; wget -qO- {ADMIN}/metrics; echo ---
            for task in /proc/{self.pid}/task/*; do
              read -r name <$task/comm || continue
              echo $name $(grep Cpus_allowed_list $task/status)
            done
            """)
        lanes, metrics, tasks = text.split("---\n")
        shown = json.loads(lanes)["lanes"]
        assert all(lane["pinned"] == (lane["cpu"] is not None) for lane in shown)
        # A sample may be followed by an exemplar.
        lines = [line.partition(" # {")[0] for line in metrics.splitlines() if line[0] != "#"]
        pairs = (line.rsplit(" ", 1) for line in lines)
        threads = [line.split() for line in tasks.splitlines()]
        return Seen(
            [lane["cpu"] for lane in shown],
            {series: float(value) for series, value in pairs},
            {words[0]: words[2] for words in threads if words[0].startswith("lane-") and words[2:]},
        )

    def write(self, **files: str) -> None:
        self.machine.good(writes(self.cgroup, files))

    def becomes(self, lanes: list[int | None], **cpus: float | None) -> Seen:
        """Waits for lane placement and `corelane_cpus`."""
        seen = Seen([], {}, {})

        def wanted() -> bool:
            nonlocal seen
            seen = self.look()
            there = {key: seen.cpus.get(key) for key in cpus}
            pinned = {str(cpu) for cpu in lanes if cpu is not None}
            return (seen.lanes, there) == (lanes, cpus) and pinned <= set(seen.masks.values())

        try:
            eventually(wanted, patience=ANSWER, pause=0.5)
        except ToolError as error:
            found = f"lanes {seen.lanes}, {seen.cpus}, {seen.masks}"
            raise AssertionError(
                f"{found} for {lanes}, {cpus}\n{self.machine.read(LOG)}"
            ) from error
        return seen


def writes(cgroup: str, files: dict[str, str]) -> str:
    """Shell lines that write cgroup files in order."""
    names = {name: f"{cgroup}/{name.replace('_', '.')}" for name in files}
    return "".join(f"echo '{text}' >{names[name]}\n" for name, text in files.items())


@contextmanager
def serving(
    machine: Machine, *flags: str, within: str = OWN, before: str = "", **files: str
) -> Iterator[Inside]:
    """Runs a server in a new cgroup. `before` is a command prefix such as taskset."""
    parent = within.rpartition("/")[0]
    listen = "--listen=127.0.0.1:8080 --admin.listen=127.0.0.1:8081 --limits.connections=64"
    words = f"{before} corelane-server {listen} {' '.join(flags)}"
    try:
        pid = machine.good(f"""
            mkdir -p {parent} {within}
            echo '+cpuset +cpu +memory' >{parent}/cgroup.subtree_control
            {writes(within, files)}
            sh -c 'echo $$ >{within}/cgroup.procs; exec {words}' >{LOG} 2>&1 &
            pid=$!
            # A process that has exited has no program any more, even before its parent has reaped
            # it.
            until wget -qO- {ADMIN}/readyz >/run/ready 2>&1 || ! readlink /proc/$pid/exe >/run/exe; do
              usleep 100000
            done
            echo $pid
            """)
        server = Inside(machine, int(pid), within)
        assert machine.run(f"readlink /proc/{server.pid}/exe").status == 0, machine.read(LOG)
        yield server
    finally:
        machine.good(f"""
            echo 1 >{within}/cgroup.kill
            until rmdir {within} 2>/run/busy; do usleep 100000; done
            [ {parent} = {ROOT} ] || rmdir {parent}
            """)


def unpinned(count: int) -> list[None]:
    return [None] * count


def test_it_has_threads_nodes_and_cgroup_v2_alone(large: Machine) -> None:
    files = "/sys/devices/system/cpu/cpu5/topology/core_cpus_list /sys/devices/system/node/node1/cpulist"
    assert large.good(f"cat {files}") == "4-5\n4-7\n"
    assert "cgroup2" in large.read("/proc/mounts")
    assert "cpuset" in large.read(f"{ROOT}/cgroup.controllers").split()


SETTINGS: dict[str, tuple[dict[str, str], tuple[str, ...], list[int | None], dict[str, float]]] = {
    # Cgroup files, flags, lanes, and counts other than 8.
    "everything": ({}, (), unpinned(8), {}),
    "affinity": ({"before": "taskset 3c"}, (), unpinned(4), {"affinity": 4}),
    "affinity, lanes": ({"before": "taskset 3c"}, ("--lanes=4",), [2, 3, 4, 5], {"affinity": 4}),
    "cpuset": ({"cpuset_cpus": "2-3"}, (), unpinned(2), {"cpuset": 2, "affinity": 2}),
    # A request for 2 CPUs, with the linear and the newer conversion to weights.
    "cpuset, weight": (
        {"cpuset_cpus": "2-3", "cpu_weight": "79"},
        (),
        [2, 3],
        {"cpuset": 2, "affinity": 2},
    ),
    "cpuset, weight by the curve": (
        {"cpuset_cpus": "2-3", "cpu_weight": "174"},
        (),
        [2, 3],
        {"cpuset": 2, "affinity": 2},
    ),
    "cpuset, weight of others": (
        {"cpuset_cpus": "2-3", "cpu_weight": "200"},
        (),
        unpinned(2),
        {"cpuset": 2, "affinity": 2},
    ),
    "cpuset, affinity": (
        {"cpuset_cpus": "2-5", "before": "taskset f0"},
        ("--lanes=2",),
        [4, 5],
        {"cpuset": 4, "affinity": 2},
    ),
    "quota below one": ({"cpu_max": "50000 100000"}, (), unpinned(1), {"quota": 0.5}),
    "quota with a fraction": ({"cpu_max": "150000 100000"}, (), unpinned(1), {"quota": 1.5}),
    "quota": ({"cpu_max": "200000 100000"}, (), unpinned(2), {"quota": 2}),
    "quota beyond the cpuset": (
        {"cpuset_cpus": "0-1,4", "cpu_max": "400000 100000"},
        (),
        unpinned(3),
        {"cpuset": 3, "affinity": 3, "quota": 4},
    ),
    "quota of the cpuset, weight": (
        {"cpuset_cpus": "4-5", "cpu_max": "200000 100000", "cpu_weight": "79"},
        (),
        [4, 5],
        {"cpuset": 2, "affinity": 2, "quota": 2},
    ),
    "quota below the cpuset, weight": (
        {"cpuset_cpus": "4-7", "cpu_max": "200000 100000", "cpu_weight": "157"},
        (),
        unpinned(2),
        {"cpuset": 4, "affinity": 4, "quota": 2},
    ),
    # Lanes use separate cores first, then separate nodes.
    "pinned 2": ({}, ("--pin=on", "--lanes=2"), [0, 2], {}),
    "pinned 4": ({}, ("--pin=on", "--lanes=4"), [0, 2, 4, 6], {}),
    "pinned 5": ({}, ("--pin=on", "--lanes=5"), [0, 1, 2, 4, 6], {}),
    "pinned, quota": (
        {"cpu_max": "200000 100000"},
        ("--pin=on",),
        [0, 2],
        {"quota": 2},
    ),
    "pinned on the node with cores": (
        {"cpuset_cpus": "3-7"},
        ("--pin=on", "--lanes=2"),
        [4, 6],
        {"cpuset": 5, "affinity": 5},
    ),
    # A partition removes its CPUs from other cgroups.
    "partition": (
        {"cpuset_cpus": "6-7", "cpuset_cpus_partition": "root", "within": f"{ROOT}/partition"},
        (),
        [6, 7],
        {"cpuset": 2, "affinity": 2},
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_lanes(large: Machine, name: str) -> None:
    cgroup, flags, lanes, counts = SETTINGS[name]
    with serving(large, *flags, **cgroup) as server:
        seen = server.becomes(lanes)
        assert seen.cpus == {"online": 8, "cpuset": 8, "affinity": 8, **counts}


def test_more_pinned_lanes_than_cpus_are_refused(large: Machine) -> None:
    result = large.run("taskset 3 corelane-server --limits.connections=64 --pin=on --lanes=3")
    assert result.status != 0
    assert "cannot pin 3 lanes" in result.output + result.errors


OWNED = {"cpuset_cpus": "4-5", "cpu_weight": "79"}


def test_a_change_of_quota_and_weight_is_seen(large: Machine) -> None:
    with serving(large, **OWNED, cpu_max="200000 100000") as server:
        server.becomes([4, 5], quota=2)
        server.write(cpu_max="100000 100000")
        server.becomes(unpinned(2), quota=1)
        server.write(cpu_max="max 100000")
        server.becomes([4, 5], quota=None)
        server.write(cpu_weight="1")
        server.becomes(unpinned(2))
        server.write(cpu_weight="79")
        server.becomes([4, 5])
        large.write(f"{PARENT}/cpu.max", "150000 100000")
        server.becomes(unpinned(2), quota=1.5)


def test_lanes_follow_the_cpuset(large: Machine) -> None:
    with serving(large, cpuset_cpus="2-3", cpu_weight="79") as server:
        server.becomes([2, 3], cpuset=2)
        server.write(cpuset_cpus="4-5")
        server.becomes([4, 5], cpuset=2)
        server.write(cpuset_cpus="7")
        server.becomes(unpinned(2), cpuset=1, affinity=1)
        server.write(cpuset_cpus="2,5")
        server.becomes([2, 5], cpuset=2, affinity=2)


@contextmanager
def offline(machine: Machine, cpu: int) -> Iterator[None]:
    file = f"/sys/devices/system/cpu/cpu{cpu}/online"
    machine.write(file, "0")
    try:
        yield
    finally:
        machine.write(file, "1")


def test_lanes_leave_a_cpu_that_goes_and_come_back(large: Machine) -> None:
    with serving(large, **OWNED) as server:
        server.becomes([4, 5], online=8)
        with offline(large, 5):
            server.becomes(unpinned(2), online=7, cpuset=1, affinity=1)
        server.becomes([4, 5], online=8, cpuset=2)


def test_a_lane_of_a_cpu_that_goes_moves_to_the_other_thread_of_the_core(large: Machine) -> None:
    with serving(large, "--pin=on", "--lanes=4") as server:
        server.becomes([0, 2, 4, 6])
        with offline(large, 6):
            server.becomes([0, 2, 4, 7])


SERIES = [
    f"corelane_cpu_{name}_total" for name in ("periods", "throttled_periods", "throttled_seconds")
]


def counted(machine: Machine, cgroup: str) -> list[float]:
    """The kernel's counters: periods, throttled periods, seconds."""
    words = dict(line.split() for line in machine.read(f"{cgroup}/cpu.stat").splitlines())
    seconds = round(int(words["throttled_usec"]) / 1e6, 9)
    return [float(words["nr_periods"]), float(words["nr_throttled"]), seconds]


def shown(server: Inside) -> list[float]:
    """The server's counters, rounded to nanoseconds."""
    metrics = server.look().metrics
    return [round(metrics[series], 9) for series in SERIES]


@pytest.mark.parametrize("limited", [OWN, PARENT], ids=["own", "parent"])
def test_throttling_by_the_cgroup_and_by_its_parent_is_counted(
    large: Machine, limited: str
) -> None:
    with serving(large) as server:
        assert shown(server) == [0, 0, 0]
        large.write(f"{limited}/cpu.max", "20000 100000")

        def all_counted() -> bool:
            # Responses may be late while the server is throttled.
            large.run("wget -qO- 'http://127.0.0.1:8080/work?ops=1000000'")
            return all(shown(server))

        eventually(all_counted, patience=ANSWER)
        least, now, most = counted(large, limited), shown(server), counted(large, limited)
        assert all(a <= b <= c for a, b, c in zip(least, now, most, strict=True))


def test_the_memory_limit_is_the_lowest_above_it_and_ends_what_exceeds_it(large: Machine) -> None:
    def limit(server: Inside) -> float | None:
        return server.look().metrics.get("corelane_memory_limit_bytes")

    with serving(large, memory_max="256M") as server:
        assert limit(server) == 256 << 20
        large.write(f"{PARENT}/memory.max", "128M")
        assert limit(server) == 128 << 20
        server.write(memory_max="max")
        large.write(f"{PARENT}/memory.max", "max")
        assert limit(server) is None
        # This limit is lower than the memory in use, none of which can be reclaimed.
        server.write(memory_max="1M")
        gone = f"! readlink /proc/{server.pid}/exe"
        eventually(lambda: large.run(gone).status == 0, "its end", patience=ANSWER)
        events = dict(map(str.split, large.read(f"{OWN}/memory.events").splitlines()))
        assert events["oom_kill"] == "1"


GROWTH = """
import re, socket, sys, time

pid, lane = sys.argv[1:]
address = ("127.0.0.1", 8080)

def anonymous():
    "KiB of each node."
    found = [0, 0]
    for line in open(f"/proc/{pid}/numa_maps"):
        if "anon=" in line and "file=" not in line:
            page = int(re.search(r"kernelpagesize_kB=([0-9]+)", line)[1])
            for node, count in re.findall(r"N([01])=([0-9]+)", line):
                found[int(node)] += int(count) * page
    return found

def lane_of(client):
    client.sendall(b"GET /hello HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n")
    return re.search(rb"corelane-lane: ([0-9]+)", client.recv(65536))[1].decode()

kept = []
while len(kept) < 40:
    client = socket.socket()
    client.connect(address)
    kept += [client] if lane_of(client) == lane else []
before = anonymous()
for client in kept:
    client.sendall(b"GET /hello HTTP/1.1\\r\\nx: " + b"x" * 100_000)
# All data have been read when the queue is empty. The second column of numbers contains the queue
# of the other side.
while any(int(line.split()[4].split(":")[1], 16) for line in open("/proc/net/tcp") if ":1F90 " in line):
    time.sleep(0.1)
print(*(now - then for now, then in zip(anonymous(), before)))
"""


@pytest.mark.parametrize("node", [0, 1])
def test_a_lane_takes_memory_of_its_own_node(large: Machine, node: int) -> None:
    """40 unfinished headers of 100 kB. Lanes 0 and 1 are on different nodes."""
    flags = ("--park-after=off", "--timeouts.header=1h", "--limits.header-bytes=128KiB")
    # Otherwise, the kernel would later migrate pages.
    large.write("/proc/sys/kernel/numa_balancing", "0")
    try:
        with serving(large, *flags, cpuset_cpus="3,7", cpu_weight="79") as server:
            server.becomes([3, 7])
            words = f"{PYTHON} -S - {server.pid} {node}"
            grown = list(map(int, large.good(f"{words} <<'END'\n{GROWTH}\nEND").split()))
            assert grown[node] > 2048 > 4 * abs(grown[1 - node]), grown
    finally:
        large.write("/proc/sys/kernel/numa_balancing", "1")
