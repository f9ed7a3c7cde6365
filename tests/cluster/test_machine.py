"""The cgroups of the local cluster's nodes in a machine with cgroup v2 and 8 CPUs: what the kernel makes of them."""

from support.initramfs import HACK, PYTHON
from support.machines import Machine

COMMON = """
from ipaddress import IPv4Network
from pathlib import Path
from cluster import cgroups, plan
root = Path("/sys/fs/cgroup")
nodes = plan.make(IPv4Network("10.213.0.0/16"), cgroups.usable_cpus(root)).nodes
found = cgroups.folders(root, [node.cgroup for node in nodes])
"""
CREATE = """
cgroups.require(root)
for node in nodes:
    cgroups.create(root, node.cgroup, node.cpus)
"""
REMOVE = """
print(*sorted(cgroups.pids(found)))
cgroups.remove(found)
"""


def cluster(machine: Machine, script: str) -> str:
    """Runs lines of Python with the cluster's modules; what they print."""
    words = f"PYTHONPATH={HACK} PYTHONDONTWRITEBYTECODE=1 {PYTHON} -S -"
    return machine.good(f"{words} <<'END'\n{COMMON}{script}\nEND")


def test_pods_of_a_node_stay_on_its_cpus(large: Machine) -> None:
    cluster(large, CREATE)
    pids = []
    for node in ("node1", "node2"):
        pods = f"/sys/fs/cgroup/corelane-{node}/kubepods"
        # As a kubelet that knows all CPUs would have it, and as one that has given its own away.
        made = large.good(f"""
            mkdir -p {pods}/shared
            for folder in {pods}/.. {pods}; do
              echo '+cpuset +cpu +memory +pids' >$folder/cgroup.subtree_control
            done
            echo 0-7 >{pods}/shared/cpuset.cpus
            sh -c 'echo $$ >{pods}/shared/cgroup.procs; exec sleep 3600' >/run/log 2>&1 &
            echo $!
            """)
        pids.append(int(made))
    allowed = "grep -h Cpus_allowed_list: /proc/PID/status | cut -f2"
    # The end of the shell's line is before the process is in its cgroup.
    masks = [
        large.good(f"until {mask} | grep -qv 0-7; do usleep 100000; done; {mask}")
        for mask in (allowed.replace("PID", str(pid)) for pid in pids)
    ]
    assert masks == ["4-7\n", "0-3\n"]
    assert cluster(large, "print(*sorted(cgroups.pids(found)))").split() == [
        *map(str, sorted(pids))
    ]
    large.good(f"kill {' '.join(map(str, pids))}")
    large.good(
        "while grep -q . /sys/fs/cgroup/corelane-*/kubepods/shared/cgroup.procs; do usleep 100000; done"
    )
    assert cluster(large, REMOVE) == "\n"
    assert cluster(large, "print(found)") == "[]\n"
