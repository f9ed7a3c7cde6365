"""`down`: stops only the processes of `up`."""

import shutil
import signal
from pathlib import Path

from local import database, processes, render, supervisor
from stack import in_time, pids
from tools import progress
from tools.errors import ToolError

PATIENCE = 25.0
"""Seconds until remaining processes are killed; supervisord itself kills after 20."""

KILLED = 5.0


def main(run: Path) -> int:
    if not processes.find(run):
        print(f"Nothing is up (instance {run.name}).")
        return 0
    with pids.lock(run):
        stop(run)
    print("Corelane is down.")
    return 0


def remove(run: Path) -> int:
    """Also removes the instance's folder, and its data in other places."""
    main(run)
    database.remove(run)
    shutil.rmtree(run, ignore_errors=True)
    return 0


def stop(run: Path) -> None:
    """Stops processes in order if the instance's supervisord is running, otherwise directly."""
    pid, since = supervisor.pid(run), supervisor.mark(run)
    if pid is not None:
        pids.send(pid, signal.SIGTERM, processes.MARK, run)
        if _gone(run, PATIENCE):
            report_killed(run, since)
            return _forget(run)
    elif processes.find(run):
        _say(run, "supervisord does not reply; stopping each process directly")
        _send_all(run, signal.SIGTERM)
        if _gone(run, PATIENCE):
            return _forget(run)
    if processes.find(run):
        _say(run, "killing processes that do not exit")
        _send_all(run, signal.SIGKILL)
        if not _gone(run, KILLED):
            raise ToolError(f"these processes remain after SIGKILL: {_names(run)}")
    return _forget(run)


def report_killed(run: Path, since: int) -> None:
    """Prints the processes that supervisord has had to kill since a mark in its log."""
    for name in supervisor.killed(run, since):
        progress.say(name, f"was killed: it still ran {render.STOP} s after SIGTERM")


def _gone(run: Path, patience: float) -> bool:
    return in_time(lambda: not processes.find(run), patience)


def _send_all(run: Path, number: signal.Signals) -> None:
    for pid in processes.find(run):
        pids.send(pid, number, processes.MARK, run)


def _say(run: Path, text: str) -> None:
    progress.say("down", f"{text}: {_names(run)}")


def _names(run: Path) -> str:
    return ", ".join(f"{pids.name(pid)} (pid {pid})" for pid in processes.find(run))


def _forget(run: Path) -> None:
    for path in (run / "topology.json", run / "supervisord.pid", supervisor.socket_path(run)):
        path.unlink(missing_ok=True)
