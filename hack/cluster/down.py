"""`down`: stops what `up` started and nothing else, and checks that nothing is left."""

import shutil
import subprocess
from pathlib import Path

from cluster import cgroups, conflicts, leftovers, processes, records, requirements
from cluster.plan import HOST_LINK
from cluster.settings import Settings
from tools.errors import ToolError

PATIENCE = 30.0

REAPING = 15.0
"""Seconds in which init should reap ended processes, so that ps does not show them any more."""


def main(settings: Settings) -> int:
    """Stops the cluster."""
    conflicts.require_ours(settings.state)
    if not settings.state.exists() and not leftovers.find(settings, {}):
        print("No cluster is up.")
        return 0
    requirements.require_user()
    with records.lock(settings.state):
        record = records.Record(settings.state)
        if not record.exists and not leftovers.find(settings, {}):
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
        found = leftovers.pids(settings, namespaces)
        ended.update(found)
        processes.kill(found)
        processes.reap()
        return not found

    processes.until(none_lives, PATIENCE)
    for place in leftovers.mounts(settings.state):
        subprocess.run(["umount", "--lazy", place], check=False)
    if conflicts.owner() == settings.state:
        subprocess.run(["ip", "link", "delete", HOST_LINK], check=False, capture_output=True)

    def all_gone() -> bool:
        cgroups.remove(cgroups.folders(settings.cgroups, leftovers.CGROUPS))
        return not leftovers.find(settings, namespaces)

    if not processes.until(all_gone, PATIENCE):
        left = "\n  ".join(leftovers.find(settings, namespaces))
        raise ToolError(f"these are left; remove them and run `down` again:\n  {left}")
    _forget(settings, record)
    processes.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ended), REAPING)


def _forget(settings: Settings, record: records.Record) -> None:
    """Removes all files but the logs; nothing is mounted below them any more."""
    for folder in record.content.get("made_folders", []):
        subprocess.run(["rmdir", "--ignore-fail-on-non-empty", folder], check=False)
    for entry in settings.state.iterdir():
        if entry.name not in records.KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
