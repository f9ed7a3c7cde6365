"""What the kernel says of the processes of pods on nodes of this machine."""

import os
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Process:
    """A process of a container."""

    pid: int
    name: str

    @property
    def cpus(self) -> frozenset[int]:
        """The CPUs on which the process may run, as its main thread has them; none if it has ended."""
        try:
            return _allowed(Path(f"/proc/{self.pid}/status"))
        except (FileNotFoundError, ProcessLookupError):
            return frozenset()

    @property
    def threads(self) -> dict[str, frozenset[int]]:
        """The CPUs of each thread, by its name and id."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return {
            f"{(task / 'comm').read_text().strip()}/{task.name}": _allowed(task / "status")
            for task in tasks
        }

    def quotas(self) -> list[str]:
        """The CFS quotas of the container and of its pod, as the kernel writes them."""
        for line in Path(f"/proc/{self.pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            container = CGROUPS / "cpu" / path.lstrip("/")
            if "cpu" in controllers.split(",") and container.exists():
                return [_quota(folder) for folder in (container, container.parent)]
            unified = CGROUPS / path.lstrip("/")
            if not controllers and (unified / "cpu.max").exists():
                return [_quota(folder) for folder in (unified, unified.parent)]
        raise AssertionError(f"process {self.pid} is in no cgroup with a CPU controller")


def processes_of(pod_uid: str) -> list[Process]:
    """The processes of a pod's containers; not the one that holds its namespaces open."""
    # The two cgroup drivers of the kubelet write the uid with dashes and with underscores.
    names = (f"pod{pod_uid}", f"pod{pod_uid.replace('-', '_')}")
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            cgroups = Path(f"/proc/{pid}/cgroup").read_text()
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # runc is there for a moment while a container starts or is entered.
        if any(each in cgroups for each in names) and name not in (
            "pause",
            "runc",
            "runc:[2:INIT]",
        ):
            found.append(Process(int(pid), name))
    return found


def parse_cpus(text: str) -> frozenset[int]:
    """A list of CPUs in the kernel's form, such as 0-1,4 (cpuset(7), "List format")."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def _allowed(status: Path) -> frozenset[int]:
    for line in status.read_text().splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return parse_cpus(line.split(":", 1)[1])
    raise AssertionError(f"{status} names no CPUs")


def _quota(folder: Path) -> str:
    """`none` where there is no quota, by cgroup v1 (-1) or v2 (max)."""
    v1 = folder / "cpu.cfs_quota_us"
    text = v1.read_text().strip() if v1.exists() else (folder / "cpu.max").read_text().split()[0]
    return "none" if text in ("-1", "max") else text
