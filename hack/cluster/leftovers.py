"""Everything on the machine that belongs to the cluster, and that `down` must remove."""

from pathlib import Path

from cluster import cgroups, conflicts, processes
from cluster.plan import HOST_LINK, NODES
from cluster.settings import Settings

CGROUPS = tuple(f"corelane-{name}" for name in NODES)


def pids(settings: Settings, namespaces: dict[str, dict[str, str]]) -> set[int]:
    """Processes with the mark, in the nodes' cgroups, or in the recorded namespaces."""
    return (
        set(processes.find(settings.state))
        | cgroups.pids(cgroups.folders(settings.cgroups, CGROUPS))
        | _in_namespaces(namespaces)
    )


def mounts(state: Path) -> list[Path]:
    """The host's mounts below the state folder; the deepest first.

    The folder itself may be a mounted disk, which is not ours.
    """
    places = [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted((place for place in places if state in place.parents), reverse=True)


def find(settings: Settings, namespaces: dict[str, dict[str, str]]) -> list[str]:
    """Describes everything that still exists."""
    found = [
        f"process {processes.name(pid)} (pid {pid})" for pid in sorted(pids(settings, namespaces))
    ]
    found += [f"mount {place}" for place in mounts(settings.state)]
    found += [f"cgroup {folder}" for folder in cgroups.folders(settings.cgroups, CGROUPS)]
    if conflicts.owner() == settings.state:
        found.append(f"interface {HOST_LINK}")
    return found


def _in_namespaces(namespaces: dict[str, dict[str, str]]) -> set[int]:
    """A namespace lives as long as a process is in it or a mount is on it.

    The nodes' mounts are in their own mount namespace, so processes are all there is to find.
    """
    wanted = {inode for kinds in namespaces.values() for inode in kinds.values()}
    found = set()
    for pid in processes.all_pids() if wanted else ():
        for kind in ("net", "mnt"):
            try:
                if Path(f"/proc/{pid}/ns/{kind}").readlink().name in wanted:
                    found.add(pid)
            except OSError:
                continue
    return found
