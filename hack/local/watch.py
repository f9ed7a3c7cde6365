"""`up --watch`: rebuilds the program when its sources change, and rolls it out replica by replica."""

import filecmp
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from local import build, down, processes, ready, settings, supervisor
from local.build import Built
from local.render import STOP
from local.service import Service
from local.topology import Replica, Topology
from stack import in_time, pids
from tools import progress
from tools.errors import ToolError

EVERY = 0.2
"""Seconds between checks. cargo lists the sources, so there are few files and no need for file
events.
"""

Seen = dict[Path, tuple[int, int] | None]


def watch(topology: Topology, built: list[Built], run: Path) -> int:
    """Watches until SIGINT, SIGTERM or the end of the instance. A signal takes effect after the
    current build or rollout.
    """
    ends: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: ends.append(number))
    if len(topology.replicas) == len(topology.services):
        progress.say("watch", "with one replica, requests fail while it restarts: set REPLICAS=2")
    files = {source for each in built for source in each.sources}
    progress.say("watch", f"{len(files)} files; Ctrl-C ends only this")
    seen: list[Seen] = [{} for _ in built]
    while not ends and processes.find(run):
        changed = [i for i, each in enumerate(built) if _look(each.sources) != seen[i]]
        if not changed:
            time.sleep(EVERY)
        for index in changed:
            _follow(topology, index, built, seen, run)
    print(f"The platform stays up: {settings.usage(run, 'down')} ends it.")
    return 0


def _follow(
    topology: Topology, index: int, built: list[Built], seen: list[Seen], run: Path
) -> None:
    """Builds one service and rolls it out; updates its entries in `built` and `seen`."""
    service, sources = topology.services[index], built[index].sources
    seen[index] = before = _settled(sources, _look(sources))
    try:
        built[index] = build.build(service, run, settings.profile(topology.service))
        # The build may have missed a change that happened while it ran.
        now = _look(built[index].sources)
        seen[index] = {file: before.get(file, found) for file, found in now.items()}
        _roll(topology, service, built[index], run)
    except ToolError as error:
        progress.say("watch", f"the old program keeps running: {error}")


def _roll(topology: Topology, service: Service, built: Built, run: Path) -> None:
    """Does nothing if the replicas already run the program."""
    if filecmp.cmp(built.program, run / build.FOLDER / built.program.name, shallow=False):
        return
    with pids.lock(run), progress.step("watch", "rolls the new program out"):
        roll(topology, service, built.program, run)


def _settled(sources: Iterable[Path], now: Seen) -> Seen:
    """Waits until no file changes any more, because editors and version control write several files
    in a row.
    """
    while True:
        time.sleep(EVERY)
        before, now = now, _look(sources)
        if before == now:
            return now


def _look(sources: Iterable[Path]) -> Seen:
    """Time and size of each file, including files in a folder that a build script names."""
    seen: Seen = {}
    for source in sources:
        for file in [source, *(source.rglob("*") if source.is_dir() else ())]:
            try:
                status = file.stat()
                seen[file] = (status.st_mtime_ns, status.st_size)
            except OSError:
                seen[file] = None
    return seen


START = 30.0
"""Seconds for a replica to become ready, and for the gateway to see that."""


def roll(topology: Topology, service: Service, program: Path, run: Path) -> None:
    """After an error, restores the old program everywhere."""
    installed = run / build.FOLDER / program.name
    old = installed.rename(installed.with_name(f".{program.name}.old"))
    build.install(program, run)
    rolled = []
    try:
        for replica in topology.replicas_of(service):
            rolled.append(replica)
            _restart(replica, topology, run)
            progress.say(replica.name, "runs the new program")
    except ToolError:
        old.rename(installed)
        for replica in rolled:
            _restart(replica, topology, run)
        raise


def _restart(replica: Replica, topology: Topology, run: Path) -> None:
    """Stops a replica as Kubernetes does, and returns when its successor receives requests."""
    since = supervisor.mark(run)
    if supervisor.state(run, replica.name) not in STOPPED:
        supervisor.stop(run, replica.name)
    _becomes(replica, run, STOP + START, lambda: supervisor.state(run, replica.name) in STOPPED)
    down.report_killed(run, since)
    begun = supervisor.mark(run)
    supervisor.begin(run, replica.name)

    def serves() -> bool:
        if supervisor.exits(run, begun)[replica.name]:
            log = "\n".join(ready.last(replica.name, run))
            raise ToolError(f"{replica.name} exited right after the start; {log}")
        return ready.serves(replica, topology) and replica.port in ready.reached(topology)

    _becomes(replica, run, START, serves)


STOPPED = ("STOPPED", "EXITED", "FATAL")


def _becomes(replica: Replica, run: Path, seconds: float, done: Callable[[], bool]) -> None:
    if not in_time(done, seconds):
        log = "\n".join(ready.last(replica.name, run))
        raise ToolError(f"{replica.name} is not ready within {seconds:.0f} s; {log}")
