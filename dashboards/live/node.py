"""A disposable tree with the files of /proc, /sys, /dev and /etc of a node, which its agent changes.

Each pod has one or two CPUs; the last two are for the system and the interrupts of its one device, eth0. Values are
kernel defaults.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from stack import node

NAME = "node-0"
"""The node that has all pods."""

OTHER = "node-1"
"""A node without pods in mode audit: it differs from its profile."""

INTERRUPTS = (40, 41)
"""Of eth0; the last two CPUs serve one each."""

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1048576              1048576              files
"""


@dataclass(frozen=True)
class Container:
    """A container of the node: the pod's name and uid, its own id, its CPUs and its process."""

    pod: str
    uid: str
    id: str
    cpus: str
    pid: int


@dataclass(frozen=True)
class Tree(node.Tree):
    """The tree, the agent's journal and the cgroups."""

    cpus: int

    @property
    def housekeeping(self) -> str:
        """CPUs without a pod."""
        return f"{self.cpus - 2}-{self.cpus - 1}"

    @property
    def cgroups(self) -> Path:
        """The hierarchies of cgroup v1 of a kubelet whose driver is cgroupfs."""
        return self.root.parent / "cgroups"

    def put(self, container: Container, quota: int = -1, throttled: int = 0) -> None:
        """A container on its CPUs, with a CFS quota in microseconds or none."""
        pod = Path("kubepods", f"pod{container.uid}")
        for level in (pod, pod / container.id):
            node.write(
                self.cgroups / "cpu" / level,
                {
                    "cpu.cfs_quota_us": f"{quota}\n",
                    "cpu.cfs_period_us": "100000\n",
                    "cpu.stat": f"nr_periods 9\nnr_throttled {throttled}\nthrottled_time 0\n",
                },
            )
        cpus = {"cpuset.cpus": f"{container.cpus}\n", "cgroup.procs": f"{container.pid}\n"}
        node.write(self.cgroups / "cpuset" / pod / container.id, cpus)
        node.write(self.cgroups / "cpuacct" / pod / container.id, {"cpuacct.usage": "0\n"})
        process = self.root / "proc" / str(container.pid)
        status = f"Name:\tserver\nCpus_allowed_list:\t{container.cpus}\n"
        thread = f"task/{container.pid}/status"
        node.write(process, {"comm": "server\n", "limits": LIMITS, thread: status})

    def use(self, container: Container, nanoseconds: int) -> None:
        """Sets the total CPU time of a container (cpuacct.rst)."""
        folder = self.cgroups / "cpuacct" / "kubepods" / f"pod{container.uid}" / container.id
        # Atomic for a reader.
        fresh = self.root.parent / "usage"
        fresh.write_text(f"{nanoseconds}\n")
        fresh.replace(folder / "cpuacct.usage")

    def remove(self, container: Container) -> None:
        """Removes a container that has ended."""
        procs = Path("kubepods", f"pod{container.uid}", container.id, "cgroup.procs")
        (self.cgroups / "cpuset" / procs).write_text("")
        shutil.rmtree(self.root / "proc" / str(container.pid))


def make(folder: Path, cpus: int) -> Tree:
    """Makes the tree of an unprepared node."""
    files = node.node(cpus=cpus)
    for cpu in range(cpus):
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = f"{cpu}\n"
    for cpu, number in enumerate(INTERRUPTS, cpus - len(INTERRUPTS)):
        for kind in ("smp_affinity_list", "effective_affinity_list"):
            files[f"proc/irq/{number}/{kind}"] = f"{cpu}\n"
    tree = Tree(folder / "root", folder / "journal", cpus)
    node.write(tree.root, files)
    for hierarchy in ("cpuset", "cpu", "cpuacct"):
        (tree.cgroups / hierarchy / "kubepods").mkdir(parents=True)
    return tree
