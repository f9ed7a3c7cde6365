"""Starts and stops the process of a PostgreSQL, identified by its pid and start time."""

import json
import os
import signal
import subprocess
from pathlib import Path

from cluster import processes
from postgres.instance import Instance
from tools import progress
from tools.errors import ToolError

PATIENCE = 30.0
"""Seconds until it must be ready, or gone; after a crash it recovers first."""

LINES = 8


def start(instance: Instance) -> int:
    """Starts it and returns its pid when it accepts connections."""
    with open(instance.log, "a") as output:
        process = subprocess.Popen(
            instance.argv(),
            cwd=instance.home,
            env=instance.programs.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **instance.account.popen(),
        )
    record = {"pid": process.pid, "started": processes.started(process.pid)}
    _record(instance.folder).write_text(json.dumps(record))

    def done() -> bool:
        return process.poll() is not None or takes_connections(instance, process.pid)

    if not processes.until(done, PATIENCE):
        stop(instance.folder)
    if process.poll() is not None:
        said = "\n".join(f"    {line}" for line in progress.tail(instance.log, LINES))
        raise ToolError(f"PostgreSQL did not start; the end of {instance.log}:\n{said}")
    return process.pid


def takes_connections(instance: Instance, pid: int) -> bool:
    """Whether the process is ready: what pg_ctl reads, too (miscadmin.h, LOCK_FILE_LINE_PM_STATUS)."""
    try:
        lines = (instance.data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[7].strip() == "ready" and int(lines[0]) == pid


def pid(folder: Path) -> int:
    """The pid of the PostgreSQL that was started here; 0 if it does not run."""
    try:
        record = json.loads(_record(folder).read_text())
    except FileNotFoundError:
        return 0
    return record["pid"] if processes.alive(record) else 0


def family(folder: Path) -> list[int]:
    """Its pid and those of its child processes, of which each connection has one."""
    parent = pid(folder)
    return [parent, *_children(parent)] if parent else []


def stop(folder: Path, *, keep: bool = True) -> None:
    """Stops it: it closes its connections, and writes a checkpoint if its data are kept."""
    for number in (signal.SIGINT if keep else signal.SIGQUIT, signal.SIGKILL):
        if _end(folder, number):
            _record(folder).unlink(missing_ok=True)
            return
    raise ToolError(f"PostgreSQL (pid {pid(folder)}) does not end after SIGKILL")


def _end(folder: Path, number: signal.Signals) -> bool:
    parent = pid(folder)
    if parent:
        os.kill(parent, number)
    return processes.until(lambda: not pid(folder), PATIENCE)


def _children(parent: int) -> list[int]:
    found = []
    for candidate in processes.all_pids():
        try:
            fields = Path(f"/proc/{candidate}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(candidate)
    return found


def _record(folder: Path) -> Path:
    return folder / "process.json"
