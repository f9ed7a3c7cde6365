"""`status` prints a table of all processes; `logs` prints the last lines of every process, or
follows one.
"""

import os
import time
from pathlib import Path

from local import processes, settings, supervisor, topology
from stack import pids
from tools import progress
from tools.errors import ToolError

WELL = ("RUNNING", "STARTING", "EXITED")

ROW = "{:<12} {:<9} {:>8}  {:<6} {:<22} {}"


def main(run: Path) -> int:
    """Returns 1 if a process is not running and does not restart by itself."""
    running = topology.read(run)
    states = supervisor.states(run)
    if running is None or not states:
        left = processes.find(run)
        print(f"Nothing is up (instance {run.name}).")
        if left:
            print(
                f"An incomplete earlier run left {len(left)} processes: "
                f"run {settings.usage(run, 'down')}."
            )
        return 1
    addresses = running.addresses()
    print(ROW.format("NAME", "STATE", "PID", "CPUS", "ADDRESS", "UPTIME"))
    for name in sorted(states):
        print(_row(states[name], addresses[name]))
    return 0 if all(info["statename"] in WELL for info in states.values()) else 1


def _row(info: dict, address: str) -> str:
    alive = info["pid"] != 0
    return ROW.format(
        info["name"],
        info["statename"].lower(),
        info["pid"] if alive else "-",
        pids.cpus(info["pid"]) if alive else "-",
        address,
        _duration(time.time() - info["start"]) if alive else "-",
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


LINES = 10


def logs(run: Path, name: str | None) -> int:
    """Logs stay readable after `down`."""
    logs = {log.stem: log for log in sorted(run.glob("*.log"))}
    if not logs:
        raise ToolError(f"no logs in {run}: run {settings.usage(run, 'up')} first")
    if name:
        if name not in logs:
            raise ToolError(f"unknown process {name!r}; use one of {', '.join(logs)}")
        os.execvp("tail", ["tail", "-n", "50", "-F", str(logs[name])])
    for process, log in logs.items():
        print(f"==> {process}")
        for line in progress.tail(log, LINES):
            print(f"    {line}")
    return 0
