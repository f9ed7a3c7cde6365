"""`down`: stops what `up` started and nothing else, and checks that nothing is left."""

import shutil
import subprocess
from pathlib import Path

from cluster import cgroups, records, requirements
from cluster.plan import HOST_LINK, NODES
from cluster.settings import Settings
from stack import in_time
from stack import pids as alive
from tools.errors import ToolError

CGROUPS = tuple(f"corelane-{name}" for name in NODES)


def pids(settings: Settings, namespaces: dict[str, dict[str, str]]) -> set[int]:
    """Processes with the mark, in the nodes' cgroups, or in the recorded namespaces."""
    return (
        set(alive.find(records.MARK, settings.state))
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
    found = [f"process {alive.name(pid)} (pid {pid})" for pid in sorted(pids(settings, namespaces))]
    found += [f"mount {place}" for place in mounts(settings.state)]
    found += [f"cgroup {folder}" for folder in cgroups.folders(settings.cgroups, CGROUPS)]
    if requirements.owner() == settings.state:
        found.append(f"interface {HOST_LINK}")
    return found


def _in_namespaces(namespaces: dict[str, dict[str, str]]) -> set[int]:
    """A namespace lives as long as a process is in it or a mount is on it.

    The nodes' mounts are in their own mount namespace, so processes are all there is to find.
    """
    wanted = {inode for kinds in namespaces.values() for inode in kinds.values()}
    found = set()
    for pid in alive.every() if wanted else ():
        for kind in ("net", "mnt"):
            try:
                if Path(f"/proc/{pid}/ns/{kind}").readlink().name in wanted:
                    found.add(pid)
            except OSError:
                continue
    return found


PATIENCE = 30.0

REAPING = 15.0
"""Seconds in which init should reap ended processes, so that ps does not show them any more."""


def main(settings: Settings) -> int:
    """Stops the cluster."""
    requirements.require_ours(settings.state)
    if not settings.state.exists() and not find(settings, {}):
        print("No cluster is up.")
        return 0
    requirements.require_user()
    with alive.lock(settings.state):
        record = records.Record(settings.state)
        if not record.exists and not find(settings, {}):
            print("No cluster is up.")
            return 0
        stop(settings, record)
    print("The cluster is down.")
    return 0


def stop(settings: Settings, record: records.Record) -> None:
    """Kills all processes, removes everything else, and fails if something is left."""
    # An inode of an earlier boot may belong to another namespace by now.
    same_boot = record.content.get("boot") == records.boot()
    namespaces = record.content.get("namespaces", {}) if same_boot else {}

    ended: set[int] = set()

    def none_lives() -> bool:
        found = pids(settings, namespaces)
        ended.update(found)
        alive.kill(found)
        alive.reap()
        return not found

    in_time(none_lives, PATIENCE)
    for place in mounts(settings.state):
        subprocess.run(["umount", "--lazy", place], check=False)
    if requirements.owner() == settings.state:
        subprocess.run(["ip", "link", "delete", HOST_LINK], check=False, capture_output=True)

    def all_gone() -> bool:
        cgroups.remove(cgroups.folders(settings.cgroups, CGROUPS))
        return not find(settings, namespaces)

    if not in_time(all_gone, PATIENCE):
        left = "\n  ".join(find(settings, namespaces))
        raise ToolError(f"these are left; remove them and run `down` again:\n  {left}")
    _forget(settings, record)
    in_time(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ended), REAPING)


def _forget(settings: Settings, record: records.Record) -> None:
    """Removes all files but the logs; nothing is mounted below them any more."""
    for folder in record.content.get("made_folders", []):
        subprocess.run(["rmdir", "--ignore-fail-on-non-empty", folder], check=False)
    for entry in settings.state.iterdir():
        if entry.name not in records.KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
