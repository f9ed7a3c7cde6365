"""The kernel's view of pod processes.

Also a program: it runs on nodes and prints the processes of a pod by UID.
"""

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")

OTHERS = ("pause", "runc", "runc:[2:INIT]")
"""Sandboxes, and short-lived helpers that start or enter containers."""


@dataclass(frozen=True)
class Process:
    pid: int
    name: str
    cpus: frozenset[int]
    """The main thread's affinity."""

    threads: dict[str, frozenset[int]]

    quotas: list[str]
    """CFS quotas of container and pod, in the kernel's format."""

    nice: int
    """Nice value, inherited from the cluster's programs; normally 0."""

    machine: str | None = None
    """The pid's node; `None` for this machine."""

    def kill(self) -> None:
        """Simulates the OOM killer."""
        if self.machine:
            from support.tuning import inside

            inside(self.machine, "kill", "-9", str(self.pid))
        else:
            os.kill(self.pid, signal.SIGKILL)


def processes_of(pod_uid: str) -> list[Process]:
    """Without the sandbox process."""
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
    """For example 0-1,4 (cpuset(7), "List format")."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def look(pod_uid: str) -> list[dict]:
    # The name contains dashes or underscores, depending on the cgroup driver.
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
    """`none` without a quota, which is -1 in cgroup v1 and max in v2."""
    v1 = folder / "cpu.cfs_quota_us"
    text = v1.read_text().strip() if v1.exists() else (folder / "cpu.max").read_text().split()[0]
    return "none" if text in ("-1", "max") else text


if __name__ == "__main__":
    print(json.dumps(look(sys.argv[1])))
