"""Cgroups of this machine (v1) under a name of the drill's own; they are removed at the end."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dashboards.drill.errors import DrillError

MOUNTED = Path("/sys/fs/cgroup")

NAME = "corelane-drill-"
"""With the id of the process that has made it."""


@contextmanager
def cgroup(controller: str) -> Iterator[Path]:
    """A new cgroup of a controller; what is still in it at the end is let go."""
    above = MOUNTED / controller
    if not os.access(above / "cgroup.procs", os.W_OK):
        raise DrillError(f"{above} cannot be written: this drill takes root and cgroup v1")
    folder = above / f"{NAME}{os.getpid()}-{secrets.token_hex(2)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        _remove(folder)


def sweep() -> None:
    """Removes the cgroups of drills that were killed."""
    for folder in MOUNTED.glob(f"*/{NAME}*-*"):
        if not Path("/proc", folder.name.removeprefix(NAME).split("-")[0]).exists():
            _remove(folder)


def _remove(folder: Path) -> None:
    if (folder / "freezer.state").exists():
        (folder / "freezer.state").write_text("THAWED")
    for task in (folder / "tasks").read_text().split():
        # It may have ended meanwhile.
        with suppress(OSError):
            (folder.parent / "tasks").write_text(task)
    folder.rmdir()
