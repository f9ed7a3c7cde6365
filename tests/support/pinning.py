"""What the kernel says of the processes of pods.

A node may be its own machine, so this is a program, too, which runs there: for the uid of a pod it prints a list of
its processes.
"""

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")

OTHERS = ("pause", "runc", "runc:[2:INIT]")
"""What holds the namespaces of a pod, and what starts or enters a container for a moment."""


@dataclass(frozen=True)
class Process:
    """A process of a container."""

    pid: int
    name: str
    cpus: frozenset[int]
    """The CPUs on which the process may run, as its main thread has them."""

    threads: dict[str, frozenset[int]]
    """The CPUs of each thread, by its name and id."""

    quotas: list[str]
    """The CFS quotas of the container and of its pod, as the kernel writes them."""

    nice: int
    """The nice value, which is that of the cluster's programs: 0 unless somebody started them with another."""

    machine: str | None = None
    """The node whose pid it is; `None` for one of this machine."""

    def kill(self) -> None:
        """Ends it as the kernel does when memory runs out."""
        if self.machine:
            from support.tuning import inside

            inside(self.machine, "kill", "-9", str(self.pid))
        else:
            os.kill(self.pid, signal.SIGKILL)


def processes_of(pod_uid: str) -> list[Process]:
    """The processes of a pod's containers; not the one that holds its namespaces open."""
    from cluster import settings
    from cluster.plan import NODES

    if settings.kind() != "vm":
        return [_process(found, None) for found in look(pod_uid)]
    from support.tuning import inside

    return [
        _process(found, node)
        for node in NODES
        for found in json.loads(inside(node, sys.executable, __file__, pod_uid))
    ]


def _process(found: dict, machine: str | None) -> Process:
    threads = {name: parse_cpus(cpus) for name, cpus in found["threads"].items()}
    cpus = parse_cpus(found["cpus"])
    return Process(
        found["pid"], found["name"], cpus, threads, found["quotas"], found["nice"], machine
    )


def parse_cpus(text: str) -> frozenset[int]:
    """A list of CPUs in the kernel's form, such as 0-1,4 (cpuset(7), "List format")."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def look(pod_uid: str) -> list[dict]:
    """The processes of a pod on this machine."""
    # The two cgroup drivers of the kubelet write the uid with dashes and with underscores.
    names = (f"pod{pod_uid}", f"pod{pod_uid.replace('-', '_')}")
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        process = Path("/proc", pid)
        try:
            cgroups = (process / "cgroup").read_text()
            name = (process / "comm").read_text().strip()
            if name in OTHERS or not any(each in cgroups for each in names):
                continue
            tasks = [(task.name, task) for task in (process / "task").iterdir()]
            threads = {
                f"{(task / 'comm').read_text().strip()}/{number}": _allowed(task)
                for number, task in tasks
            }
            cpus, quotas = _allowed(process), _quotas(cgroups)
            nice = os.getpriority(os.PRIO_PROCESS, int(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.append(
            {
                "pid": int(pid),
                "name": name,
                "cpus": cpus,
                "threads": threads,
                "quotas": quotas,
                "nice": nice,
            }
        )
    return found


def _quotas(cgroups: str) -> list[str]:
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        container = CGROUPS / "cpu" / path.lstrip("/")
        if "cpu" in controllers.split(",") and container.exists():
            return [_quota(folder) for folder in (container, container.parent)]
        unified = CGROUPS / path.lstrip("/")
        if not controllers and (unified / "cpu.max").exists():
            return [_quota(folder) for folder in (unified, unified.parent)]
    raise AssertionError(f"no cgroup with a CPU controller in {cgroups}")


def _allowed(task: Path) -> str:
    for line in (task / "status").read_text().splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return line.split(":", 1)[1].strip()
    raise AssertionError(f"{task} names no CPUs")


def _quota(folder: Path) -> str:
    """`none` where there is no quota, by cgroup v1 (-1) or v2 (max)."""
    v1 = folder / "cpu.cfs_quota_us"
    text = v1.read_text().strip() if v1.exists() else (folder / "cpu.max").read_text().split()[0]
    return "none" if text in ("-1", "max") else text


if __name__ == "__main__":
    print(json.dumps(look(sys.argv[1])))
