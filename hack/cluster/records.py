"""The record of `up` for `down`, `status` and the next `up`. One folder per machine."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.errors import ToolError

KEPT = ("logs", "lock")
"""Files that `down` keeps."""


@contextmanager
def lock(state: Path) -> Iterator[None]:
    """Locks the cluster; another `up` or `down` fails meanwhile."""
    state.mkdir(parents=True, exist_ok=True)
    with open(state / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(f"another up or down of {state} is running: wait for it") from None
        yield


class Record:
    """The file record.json; every change is on disk before the next step."""

    def __init__(self, state: Path) -> None:
        self.file = state / "record.json"
        try:
            self.content = json.loads(self.file.read_text())
        except FileNotFoundError:
            self.content = {}

    @property
    def exists(self) -> bool:
        """Whether an `up` began without a later `down`."""
        return bool(self.content)

    def save(self, **changes: object) -> None:
        """Adds to the record."""
        self.content.update(changes)
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(self.content, indent=1))
        os.replace(fresh, self.file)

    def add_process(self, name: str, pid: int, started: str) -> None:
        """Records a process by its pid and start time."""
        known = self.content.get("processes", {})
        self.save(processes={**known, name: {"pid": pid, "started": started}})


def kubeconfig(state: Path) -> Path:
    """The administrator's kubeconfig."""
    return state / "kubeconfig"


def log(state: Path, name: str) -> Path:
    """The log of one process."""
    return state / "logs" / f"{name}.log"


def boot() -> str:
    """This boot of the machine (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
