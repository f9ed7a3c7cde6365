"""Asks the local cluster of hack/cluster, and the machine about what it left."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cluster import plan, processes
from support import REPOSITORY
from tools import resolve

CGROUPS = Path("/sys/fs/cgroup")


def command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `hack/cluster`."""
    return subprocess.run(
        [sys.executable, "hack/cluster", *words],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up."""

    kubeconfig: Path

    def kubectl(self, *words: str, text: str = "") -> str:
        """What kubectl prints; it must succeed."""
        result = subprocess.run(
            [resolve.ensure(["kubectl"])["kubectl"], "--kubeconfig", self.kubeconfig, *words],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"kubectl {' '.join(words)}: {result.stderr}"
        return result.stdout

    def address(self, node: str) -> str:
        """Where the host reaches a node, and so its NodePorts."""
        query = 'jsonpath={.status.addresses[?(@.type=="InternalIP")].address}'
        return self.kubectl("get", "node", node, "-o", query)

    def pids(self, namespace: str, pod: str) -> list[int]:
        """The pids of a pod of the local cluster, as the host sees them; the pause is left out."""
        uid = self.kubectl("get", "pod", "-n", namespace, pod, "-o", "jsonpath={.metadata.uid}")
        found = []
        for file in CGROUPS.glob(f"cpuset/corelane-*/kubepods/**/pod{uid}/*/cgroup.procs"):
            found += [int(pid) for pid in file.read_text().split()]
        return [pid for pid in found if processes.name(pid) != "pause"]

    def quotas(self, namespace: str, pod: str) -> set[int]:
        """The CFS quotas of a pod and its containers; -1 is none."""
        uid = self.kubectl("get", "pod", "-n", namespace, pod, "-o", "jsonpath={.metadata.uid}")
        folders = CGROUPS.glob(f"cpu/corelane-*/kubepods/**/pod{uid}")
        files = (file for folder in folders for file in folder.rglob("cpu.cfs_quota_us"))
        return {int(file.read_text()) for file in files}


def cpus(pid: int) -> frozenset[int]:
    """The CPUs on which a process may run."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return plan.cpu_list(fields["Cpus_allowed_list"])


def traces() -> dict[str, set[str]]:
    """What a cluster adds to a machine: take it before `up` and after `down`, and compare."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    return {
        "mounts": set(Path("/proc/self/mounts").read_text().splitlines()),
        "links": {line.split()[1] for line in links.stdout.splitlines()},
        "routes": set(Path("/proc/net/route").read_text().splitlines()),
        "cgroups": {str(folder) for folder in CGROUPS.rglob("corelane-*") if folder.is_dir()},
        "namespaces": {name for pid in processes.all_pids() for name in _namespaces(pid)},
        "processes": {str(pid) for pid in processes.all_pids() if processes.MARK in _marks(pid)},
    }


def _namespaces(pid: int) -> set[str]:
    try:
        return {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "mnt")}
    except OSError:
        return set()


def _marks(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""
