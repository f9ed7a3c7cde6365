"""A simulated node: its objects at the API server, and a disposable file tree that its agent
changes.

No kubelet or controller acts on the API server, so the platform itself reports which pods run and
are ready. In the tree, each pod has one or two CPUs. The last two CPUs are for the system and for
the interrupts of the only device, eth0. Values are kernel defaults.
"""

import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stack import node
from stack.apiserver import Api, own_address

NAME = "node-0"

OTHER = "node-1"

INTERRUPTS = (40, 41)
"""eth0's interrupts: each of the last two CPUs handles one."""

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1048576              1048576              files
"""


@dataclass(frozen=True)
class Container:
    """A container: the pod's name and UID, its own ID, its CPUs and its process."""

    pod: str
    uid: str
    id: str
    cpus: str
    pid: int


@dataclass(frozen=True)
class Tree(node.Tree):
    cpus: int

    @property
    def housekeeping(self) -> str:
        return f"{self.cpus - 2}-{self.cpus - 1}"

    @property
    def cgroups(self) -> Path:
        return self.root.parent / "cgroups"

    def put(self, container: Container, quota: int = -1, throttled: int = 0) -> None:
        """Adds a container on its CPUs. The CFS quota is in microseconds."""
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
        folder = self.cgroups / "cpuacct" / "kubepods" / f"pod{container.uid}" / container.id
        # Atomic for readers.
        fresh = self.root.parent / "usage"
        fresh.write_text(f"{nanoseconds}\n")
        fresh.replace(folder / "cpuacct.usage")

    def remove(self, container: Container) -> None:
        procs = Path("kubepods", f"pod{container.uid}", container.id, "cgroup.procs")
        (self.cgroups / "cpuset" / procs).write_text("")
        shutil.rmtree(self.root / "proc" / str(container.pid))


def make(folder: Path, cpus: int) -> Tree:
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


SERVICE = "server"


@dataclass(frozen=True)
class Cluster:
    api: Api
    namespace: str

    def prepare(self) -> None:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.api.create("/api/v1/nodes", {"metadata": {"name": NAME}})

    def pod(self, name: str, cpus: str, pid: int) -> Container:
        count = len(cpus.split(","))
        amount = {"cpu": str(count), "memory": "64Mi"}
        kind, main = ("gateway", "envoy") if name == "gateway" else ("server", "server")
        described = {
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": f"corelane-{kind}"}},
            "spec": {
                "nodeName": NAME,
                "containers": [
                    {
                        "name": main,
                        "image": "none",
                        "resources": {"requests": amount, "limits": amount},
                    }
                ],
            },
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        uid = self.api.create(path, described)["metadata"]["uid"]
        container = Container(name, uid, secrets.token_hex(32), cpus, pid)
        status = {
            "name": main,
            "containerID": f"containerd://{container.id}",
            "image": "none",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
        phase = {"phase": "Running", "containerStatuses": [status]}
        self.api.change(f"{path}/{name}/status", {"status": phase})
        return container

    def endpoint(self, name: str, ports: Sequence[int], *, serving: bool, ending: bool) -> None:
        conditions = {"ready": serving and not ending, "serving": serving, "terminating": ending}
        one = {"addresses": [own_address()], "conditions": conditions, "nodeName": NAME}
        self._slice(name, [one], ports)

    def slice(self, name: str, addresses: Sequence[str]) -> None:
        self._slice(name, [{"addresses": [address]} for address in addresses], (8080, 8081))

    def touch(self, name: str, number: int) -> None:
        """Changes only an annotation of an EndpointSlice."""
        change = {"metadata": {"annotations": {"beat": str(number)}}}
        self.api.change(f"{self._slices}/{name}", change)

    def remove(self, name: str) -> None:
        self.api.call("DELETE", f"{self._slices}/{name}")

    @property
    def _slices(self) -> str:
        return f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"

    def _slice(self, name: str, endpoints: list[dict], ports: Sequence[int]) -> None:
        numbers = zip(("http", "admin"), ports, strict=True)
        described = {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": port, "port": number} for port, number in numbers],
        }
        if self.api.call("GET", f"{self._slices}/{name}").status == 404:
            self.api.create(self._slices, described)
        else:
            self.api.change(f"{self._slices}/{name}", described)
