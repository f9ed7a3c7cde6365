"""`down`: stops only what `up` started, and checks that nothing remains."""

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
    """Host mounts below the state folder, deepest first.

    The folder itself may be a mounted disk, which is not ours.
    """
    places = [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted((place for place in places if state in place.parents), reverse=True)


def find(settings: Settings, namespaces: dict[str, dict[str, str]]) -> list[str]:
    found = [f"process {alive.name(pid)} (pid {pid})" for pid in sorted(pids(settings, namespaces))]
    found += [f"mount {place}" for place in mounts(settings.state)]
    found += [f"cgroup {folder}" for folder in cgroups.folders(settings.cgroups, CGROUPS)]
    if requirements.owner() == settings.state:
        found.append(f"interface {HOST_LINK}")
    return found


def _in_namespaces(namespaces: dict[str, dict[str, str]]) -> set[int]:
    """Processes in the recorded namespaces: each process or mount keeps its namespace alive.

    The nodes' mounts are in their own mount namespace, so only processes need to be found.
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
"""Seconds for init to reap ended processes, which ps shows until then."""


def main(settings: Settings) -> int:
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
    """Fails if anything remains."""
    # After another boot, the inode may belong to another namespace.
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
    """Removes all files except logs, after all mounts below them are gone."""
    for folder in record.content.get("made_folders", []):
        subprocess.run(["rmdir", "--ignore-fail-on-non-empty", folder], check=False)
    for entry in settings.state.iterdir():
        if entry.name not in records.KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
