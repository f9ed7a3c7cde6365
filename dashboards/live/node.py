"""A disposable tree with the files of /proc, /sys, /dev and /etc of a node, which its agent changes.

Each pod has one or two CPUs; the last two are for the system and the interrupts of its one device, eth0. Values are
kernel defaults.
"""

import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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

SYSCTLS = {
    "fs.file-max": "100000",
    "fs.nr_open": "1048576",
    "net.core.netdev_max_backlog": "1000",
    "net.core.netdev_budget": "300",
    "net.core.netdev_budget_usecs": "2000",
    "net.core.rps_default_mask": "0",
    "net.core.rps_sock_flow_entries": "0",
    "net.ipv4.tcp_max_orphans": "8192",
    "net.ipv4.tcp_mem": "24000\t32000\t48000",
    "net.ipv4.tcp_ehash_entries": "131072",
    "net.ipv4.neigh.default.gc_thresh1": "128",
    "net.ipv4.neigh.default.gc_thresh2": "512",
    "net.ipv4.neigh.default.gc_thresh3": "1024",
    "net.ipv6.neigh.default.gc_thresh1": "128",
    "net.ipv6.neigh.default.gc_thresh2": "512",
    "net.ipv6.neigh.default.gc_thresh3": "1024",
    "net.netfilter.nf_conntrack_max": "65536",
    "net.netfilter.nf_conntrack_tcp_timeout_time_wait": "120",
}
"""Kernel defaults."""

ANY_LATENCY = struct.pack("=i", 2_000_000_000)
"""What /dev/cpu_dma_latency says without a request for less (kernel.org, PM QoS interface)."""


@dataclass(frozen=True)
class Container:
    """A container of the node: the pod's name and uid, its own id, its CPUs and its process."""

    pod: str
    uid: str
    id: str
    cpus: str
    pid: int


@dataclass(frozen=True)
class Tree:
    """The tree, the agent's journal and the cgroups."""

    folder: Path
    cpus: int

    @property
    def housekeeping(self) -> str:
        """CPUs without a pod."""
        return f"{self.cpus - 2}-{self.cpus - 1}"

    @property
    def root(self) -> Path:
        """What `/` is for the agent."""
        return self.folder / "root"

    @property
    def journal(self) -> Path:
        """The journal of the agent."""
        return self.folder / "journal"

    @property
    def cgroups(self) -> Path:
        """The hierarchies of cgroup v1 of a kubelet whose driver is cgroupfs."""
        return self.folder / "cgroups"

    def sysctl(self, name: str) -> Path:
        """The file of a sysctl."""
        return self.root / "proc/sys" / name.replace(".", "/")

    def drift(self, name: str, value: str) -> None:
        """Changes a sysctl atomically."""
        fresh = self.folder / "drifted"
        fresh.write_text(f"{value}\n")
        fresh.replace(self.sysctl(name))

    def put(self, container: Container, quota: int = -1, throttled: int = 0) -> None:
        """A container on its CPUs, with a CFS quota in microseconds or none."""
        pod = Path("kubepods", f"pod{container.uid}")
        for level in (pod, pod / container.id):
            _write(
                self.cgroups / "cpu" / level,
                {
                    "cpu.cfs_quota_us": f"{quota}\n",
                    "cpu.cfs_period_us": "100000\n",
                    "cpu.stat": f"nr_periods 9\nnr_throttled {throttled}\nthrottled_time 0\n",
                },
            )
        cpus = {"cpuset.cpus": f"{container.cpus}\n", "cgroup.procs": f"{container.pid}\n"}
        _write(self.cgroups / "cpuset" / pod / container.id, cpus)
        _write(self.cgroups / "cpuacct" / pod / container.id, {"cpuacct.usage": "0\n"})
        process = self.root / "proc" / str(container.pid)
        status = f"Name:\tserver\nCpus_allowed_list:\t{container.cpus}\n"
        thread = f"task/{container.pid}/status"
        _write(process, {"comm": "server\n", "limits": LIMITS, thread: status})

    def use(self, container: Container, nanoseconds: int) -> None:
        """Sets the total CPU time of a container (cpuacct.rst)."""
        folder = self.cgroups / "cpuacct" / "kubepods" / f"pod{container.uid}" / container.id
        # Atomic for a reader.
        fresh = self.folder / "usage"
        fresh.write_text(f"{nanoseconds}\n")
        fresh.replace(folder / "cpuacct.usage")

    def remove(self, container: Container) -> None:
        """Removes a container that has ended."""
        procs = Path("kubepods", f"pod{container.uid}", container.id, "cgroup.procs")
        (self.cgroups / "cpuset" / procs).write_text("")
        shutil.rmtree(self.root / "proc" / str(container.pid))


def make(folder: Path, cpus: int) -> Tree:
    """Makes the tree of an unprepared node."""
    tree = Tree(folder, cpus)
    _write(tree.root, _files(cpus))
    for hierarchy in ("cpuset", "cpu", "cpuacct"):
        (tree.cgroups / hierarchy / "kubepods").mkdir(parents=True)
    return tree


def _files(cpus: int) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {
        "proc/sys/kernel/random/boot_id": "0a0a0a0a-0000-0000-0000-000000000001\n",
        "proc/meminfo": "MemTotal:       16777216 kB\nMemFree:        8388608 kB\n",
        "sys/devices/system/cpu/online": f"0-{cpus - 1}\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
        "dev/cpu_dma_latency": ANY_LATENCY,
        "sys/class/net/lo/mtu": "65536\n",
        "sys/class/net/eth0/device/uevent": "DRIVER=virtio_net\n",
    }
    for cpu in range(cpus):
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = f"{cpu}\n"
    for name, value in SYSCTLS.items():
        files[f"proc/sys/{name.replace('.', '/')}"] = f"{value}\n"
    for queue, number in enumerate(INTERRUPTS):
        cpu = cpus - len(INTERRUPTS) + queue
        files[f"sys/class/net/eth0/queues/rx-{queue}/rps_cpus"] = "0\n"
        files[f"sys/class/net/eth0/queues/rx-{queue}/rps_flow_cnt"] = "0\n"
        files[f"sys/class/net/eth0/queues/tx-{queue}/xps_cpus"] = "0\n"
        files[f"sys/class/net/eth0/device/msi_irqs/{number}"] = "msix\n"
        files[f"proc/irq/{number}/smp_affinity_list"] = f"{cpu}\n"
        files[f"proc/irq/{number}/effective_affinity_list"] = f"{cpu}\n"
    return files


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
