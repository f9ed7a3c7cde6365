"""Finds the processes of one instance by a mark in their environment."""

import os
import signal
import time
from pathlib import Path

MARK = "LOCAL_RUN_DIR"
"""Variable that supervisord and all its children have; its value is the run folder."""


def find(run: Path) -> list[int]:
    """The pids of all living processes of the instance."""
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _marked(folder, run)]


def _marked(folder: Path, run: Path) -> bool:
    try:
        # Empty for a zombie, so a process that only waits to be reaped does not count.
        return f"{MARK}={run}".encode() in (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def send(pid: int, number: signal.Signals, run: Path) -> None:
    """Signals a process if it still belongs to the instance; a pid may have a new owner."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _marked(Path(f"/proc/{pid}"), run):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def gone(run: Path, seconds: float) -> bool:
    """Waits until no process of the instance is left; False when time runs out first."""
    deadline = time.monotonic() + seconds
    while find(run):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def name(pid: int) -> str:
    """The short name of a process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def cpus(pid: int) -> str:
    """The CPUs on which a process may run, as the kernel writes them: 0-3,8."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "-"
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return fields["Cpus_allowed_list"].strip()
