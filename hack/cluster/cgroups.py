"""The nodes' cgroups: one folder for each node in every hierarchy of cgroup v1."""

import os
from collections.abc import Iterable
from pathlib import Path

from cluster import plan
from tools.errors import ToolError

NEEDED = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
MOUNTS = Path("/proc/self/mounts")


def require(root: Path, mounts: Path = MOUNTS) -> None:
    """Raises an error unless all controllers that the kubelet needs are in cgroup v1."""
    have = {option for _, options in _mounts(root, mounts, "cgroup") for option in options}
    missing = [name for name in NEEDED if name not in have]
    if not missing:
        return
    unified = any(_mounts(root, mounts, "cgroup2"))
    what = (
        "has cgroup v2 only"
        if unified and not have
        else f"lacks the cgroup v1 controllers {', '.join(missing)}"
    )
    raise ToolError(
        f"{root} {what}: the local cluster needs cgroup v1 with {', '.join(NEEDED)}. "
        "With a Docker engine, CLUSTER=kind makes a cluster here"
    )


def usable_cpus(root: Path) -> frozenset[int]:
    """The CPUs that cgroups may use on this machine."""
    folder = next(
        place for place, options in _mounts(root, MOUNTS, "cgroup") if "cpuset" in options
    )
    return plan.cpu_list((folder / "cpuset.effective_cpus").read_text())


def create(root: Path, name: str) -> None:
    """Makes the cgroup of a node in every hierarchy."""
    for hierarchy, options in _mounts(root, MOUNTS, "cgroup"):
        folder = hierarchy / name
        folder.mkdir()
        if "cpuset" in options:
            # A new cpuset is empty, and nothing can run in an empty one (cpuset(7)).
            for file in ("cpuset.cpus", "cpuset.mems"):
                (folder / file).write_text((hierarchy / file).read_text())


def folders(root: Path, names: Iterable[str]) -> list[Path]:
    """The cgroups of these nodes that exist, in all hierarchies."""
    places = [hierarchy for hierarchy, _ in _mounts(root, MOUNTS, "cgroup", "cgroup2")]
    found = [place / name for place in places for name in names]
    return [folder for folder in found if folder.is_dir()]


def pids(top: Iterable[Path]) -> set[int]:
    """The processes in these cgroups and all below."""
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
    """Where below `root` hierarchies are mounted, with their options."""
    found = []
    for line in mounts.read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind in kinds and Path(place).is_relative_to(root):
            found.append((Path(place), options.split(",")))
    return found
