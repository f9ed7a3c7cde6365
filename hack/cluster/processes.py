"""Starts processes in the background, and finds the processes of the cluster."""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cluster import records

MARK = "CORELANE_CLUSTER_STATE"
"""Environment variable of every process that `up` starts, and of their children."""


def start(
    record: records.Record, name: str, argv: Sequence[object], environment: Mapping[str, str]
) -> int:
    """Starts a process with its output in a log file, and records it."""
    folder = record.file.parent
    file = records.log(folder, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "ab") as output:
        process = subprocess.Popen(
            [str(argument) for argument in argv],
            cwd="/",
            env={**environment, MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    record.add_process(name, process.pid, started(process.pid))
    return process.pid


def raise_open_files() -> None:
    """Raises the limit of this process, which its children and containers inherit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def started(pid: int) -> str:
    """The start time of a running process, in ticks since boot, or "" (proc(5), stat)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def alive(entry: Mapping[str, object]) -> bool:
    """Whether a recorded process runs. A pid may be reused, a pid with that start time not."""
    return bool(entry["started"]) and started(int(entry["pid"])) == entry["started"]


def find(state: Path) -> list[int]:
    """The pids of all running processes with the mark."""
    mark = f"{MARK}={state}".encode()
    return [pid for pid in all_pids() if mark in _environment(pid)]


def all_pids() -> list[int]:
    """Every pid of the machine."""
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _environment(pid: int) -> list[bytes]:
    try:
        # Empty for a zombie, so a process that only waits to be reaped does not count.
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def name(pid: int) -> str:
    """The short name of a process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def kill(pids: Iterable[int]) -> None:
    """Kills processes that still exist."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def reap() -> None:
    """Reaps ended children, which would count as running otherwise."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return


def until(condition, seconds: float, pause: float = 0.05) -> bool:
    """Waits for the condition; returns whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
