"""`status`: a table of all processes."""

import time
from pathlib import Path

from local import processes, supervisor, topology

ROW = "{:<12} {:<9} {:>8}  {:<6} {:<22} {}"


def main(run: Path) -> int:
    """Prints the table; 0 when every process runs, 1 otherwise."""
    running = topology.read(run)
    states = supervisor.states(run)
    if running is None or not states:
        left = processes.find(run)
        print(f"Nothing is up (instance {run.name}).")
        if left:
            print(f"An incomplete earlier run left {len(left)} processes: run make down.")
        return 1
    addresses = running.addresses()
    print(ROW.format("NAME", "STATE", "PID", "CPUS", "ADDRESS", "UPTIME"))
    for name in sorted(states):
        print(_row(states[name], addresses[name]))
    return 0 if all(info["statename"] == "RUNNING" for info in states.values()) else 1


def _row(info: dict, address: str) -> str:
    alive = info["pid"] != 0
    return ROW.format(
        info["name"],
        info["statename"].lower(),
        info["pid"] if alive else "-",
        processes.cpus(info["pid"]) if alive else "-",
        address,
        _duration(time.time() - info["start"]) if alive else "-",
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
