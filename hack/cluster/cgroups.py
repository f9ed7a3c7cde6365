"""The nodes' cgroups: one folder per node, in cgroup v2 or in every cgroup v1 hierarchy."""

import os
from collections.abc import Iterable
from pathlib import Path

from cluster import plan
from tools.errors import ToolError

NEEDED = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
"""cgroup v1 controllers."""

NEEDED_V2 = ("cpu", "cpuset", "memory", "pids")
"""cgroup v2 controllers. Without a controller, cgroup v2 can count CPU time, freeze processes and
restrict devices.
"""

DELEGATED = (*NEEDED_V2, "io", "hugetlb")
"""Controllers that a node gets if the machine supports them."""

MOUNTS = Path("/proc/self/mounts")


def unified(root: Path, mounts: Path = MOUNTS) -> bool:
    """Whether cgroup v2 is mounted at the root; in a hybrid setup, its mount point is a subfolder."""
    return any(place == root for place, _ in _mounts(root, mounts, "cgroup2"))


def require(root: Path, mounts: Path = MOUNTS) -> None:
    """Raises an error unless one version has all controllers that the kubelet needs."""
    if unified(root, mounts):
        version, needed, have = "v2", NEEDED_V2, set(_controllers(root))
    else:
        version, needed = "v1", NEEDED
        have = {option for _, options in _mounts(root, mounts, "cgroup") for option in options}
    missing = [name for name in needed if name not in have]
    if missing:
        raise ToolError(
            f"{root} lacks the cgroup {version} controllers {', '.join(missing)}: the local cluster "
            f"needs cgroup v2 with {', '.join(NEEDED_V2)}, or v1 with {', '.join(NEEDED)}. "
            "With a Docker engine, CLUSTER=kind makes a cluster here"
        )


def usable_cpus(root: Path, mounts: Path = MOUNTS) -> frozenset[int]:
    if unified(root, mounts):
        return plan.cpu_list((root / "cpuset.cpus.effective").read_text())
    folder = next(
        place for place, options in _mounts(root, mounts, "cgroup") if "cpuset" in options
    )
    return plan.cpu_list((folder / "cpuset.effective_cpus").read_text())


def create(root: Path, name: str, cpus: Iterable[int], mounts: Path = MOUNTS) -> None:
    if unified(root, mounts):
        # Only the root may delegate controllers while it contains processes (cgroup-v2.rst).
        have = [each for each in DELEGATED if each in _controllers(root)]
        (root / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in have))
        (root / name).mkdir()
        (root / name / "cpuset.cpus").write_text(plan.cpu_text(cpus))
        return
    for hierarchy, options in _mounts(root, mounts, "cgroup"):
        folder = hierarchy / name
        folder.mkdir()
        if "cpuset" in options:
            # A new cpuset is empty, and no process can run in an empty cpuset (cpuset(7)).
            (folder / "cpuset.cpus").write_text(plan.cpu_text(cpus))
            (folder / "cpuset.mems").write_text((hierarchy / "cpuset.mems").read_text())


def _controllers(root: Path) -> list[str]:
    """cgroup v2 controllers that no v1 hierarchy uses."""
    return (root / "cgroup.controllers").read_text().split()


def folders(root: Path, names: Iterable[str], mounts: Path = MOUNTS) -> list[Path]:
    places = [hierarchy for hierarchy, _ in _mounts(root, mounts, "cgroup", "cgroup2")]
    found = [place / name for place in places for name in names]
    return [folder for folder in found if folder.is_dir()]


def pids(top: Iterable[Path]) -> set[int]:
    found: set[int] = set()
    for start in top:
        for folder, _, _ in os.walk(start):
            try:
                found.update(map(int, (Path(folder) / "cgroup.procs").read_text().split()))
            except OSError:
                continue
    return found


def remove(top: Iterable[Path]) -> None:
    """Removes the cgroups without processes."""
    for start in top:
        for folder, _, _ in os.walk(start, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue


def _mounts(root: Path, mounts: Path, *kinds: str) -> list[tuple[Path, list[str]]]:
    found = []
    for line in mounts.read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind in kinds and Path(place).is_relative_to(root):
            found.append((Path(place), options.split(",")))
    return found
