"""The record of `up`, which `down`, `status` and the next `up` read. Each machine has one folder."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from stack import pids
from stack.process import detached

MARK = "CORELANE_CLUSTER_STATE"
"""Environment variable of every process that `up` starts and of their children."""

KEPT = ("logs", "lock")


class Record:
    """The file record.json; each change is on disk before the next step."""

    def __init__(self, state: Path) -> None:
        self.file = state / "record.json"
        try:
            self.content = json.loads(self.file.read_text())
        except FileNotFoundError:
            self.content = {}

    @property
    def exists(self) -> bool:
        return bool(self.content)

    def save(self, **changes: object) -> None:
        self.content.update(changes)
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(self.content, indent=1))
        os.replace(fresh, self.file)

    def start(self, name: str, argv: Sequence[object], environment: Mapping[str, str]) -> int:
        """Logs a process's output to a file, and records its pid and start time."""
        folder = self.file.parent
        file = log(folder, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        pid = detached(argv, file, {**environment, MARK: str(folder)}, cwd="/").pid
        known = self.content.get("processes", {})
        self.save(processes={**known, name: {"pid": pid, "started": pids.started(pid)}})
        return pid


def kubeconfig(state: Path) -> Path:
    return state / "kubeconfig"


def log(state: Path, name: str) -> Path:
    return state / "logs" / f"{name}.log"


def boot() -> str:
    """Returns the ID of this boot (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
