"""Rolls a new program out to the replicas, one after the other, while the others serve."""

import time
from collections.abc import Callable
from pathlib import Path

from local import build, ready, supervisor
from local.render import STOP
from local.topology import Replica, Topology
from tools import progress
from tools.errors import ToolError

START = 30.0
"""Seconds for a replica to become ready, and for the gateway to see that."""


def roll(topology: Topology, program: Path, run: Path) -> None:
    """Replaces the program of every replica; with an error, all of them have the old one again."""
    installed = run / build.FOLDER / program.name
    old = installed.rename(installed.with_name(f".{program.name}.old"))
    build.install(program, run)
    rolled = []
    try:
        for replica in topology.replicas:
            rolled.append(replica)
            _restart(replica, topology, run)
            progress.say(replica.name, "runs the new program")
    except ToolError:
        old.rename(installed)
        for replica in rolled:
            _restart(replica, topology, run)
        raise


def _restart(replica: Replica, topology: Topology, run: Path) -> None:
    """Ends a replica as Kubernetes does, and returns when its successor gets requests."""
    if supervisor.state(run, replica.name) not in STOPPED:
        supervisor.stop(run, replica.name)
    _becomes(replica, run, STOP + START, lambda: supervisor.state(run, replica.name) in STOPPED)
    supervisor.begin(run, replica.name)

    def serves() -> bool:
        if supervisor.state(run, replica.name) in ("BACKOFF", "FATAL"):
            log = "\n".join(ready.last(replica.name, run))
            raise ToolError(f"{replica.name} exited right after the start; {log}")
        return ready.serves(replica, topology) and replica.port in ready.reached(topology)

    _becomes(replica, run, START, serves)


STOPPED = ("STOPPED", "EXITED", "FATAL")


def _becomes(replica: Replica, run: Path, seconds: float, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            log = "\n".join(ready.last(replica.name, run))
            raise ToolError(f"{replica.name} is not ready within {seconds:.0f} s; {log}")
        time.sleep(0.05)
