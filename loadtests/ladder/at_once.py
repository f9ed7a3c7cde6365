"""20,000 requests of 4 KiB in the same moment, and the same spread over a short time."""

import contextlib
import time
from collections.abc import Iterator

from loadtests.ladder import network
from loadtests.ladder.holders import Holders, Stage, holders
from loadtests.ladder.plan import Job
from loadtests.ladder.stack import Stack, floors, stack
from tools.errors import ToolError

PAGE_ROUTE = "/static/4k.txt"

FLOOR, MEMORY, DISK, GATEWAY = "floor", "server", "server, from disk", "gateway"

MOMENT, FAST = "in the same moment", "as fast as they can"
"""All begin before the first reply is read; or replies are read in between, as a client with an event loop does."""

BURST = 64

FROM_DISK = ("--static.cache", "0", "--limits.blocking-queue", "20000")
"""Every request opens the file and reads it, and as many may wait for that as come."""

PROCESSES = 2
"""Of the generator: one for each CPU, and none needs more descriptors than it may have."""

FIRST = 50
"""Connections that ask first, unmeasured: who has never been asked reads the file and starts threads."""

PATIENCE = 10.0
STEP = 0.05


def targets(paths: tuple[str, ...]) -> list[str]:
    """What is asked, in the order of the report."""
    direct = [FLOOR, MEMORY, DISK] if "direct" in paths else []
    return direct + ([GATEWAY] if "gateway" in paths else [])


def measure(job: Job, target: str) -> list[dict]:
    """Every pattern with one target; all share the CPUs, as there are no others."""
    found = []
    with _serving(job, target) as serving:
        with _clients(job, serving) as held:
            held.open(FIRST, 0.0, ask=True)
        _settled()
        for come, window, burst in _ways(job.plan.windows):
            named = {"come": come, "window_s": window}
            with _clients(job, serving) as held:
                with _watched(serving) as seen:
                    stage = held.open(job.plan.requests, window, ask=True, burst=burst)
                connect = stage.times("connected_ms")
                found.append(
                    {"connections": "new", **named, "connect_ms": connect, **_cell(stage, seen)}
                )
                if come == MOMENT:
                    with _watched(serving) as seen:
                        stage = held.ask(window)
                    found.append(
                        {"connections": "open", **named, "connect_ms": [], **_cell(stage, seen)}
                    )
            _settled()
    return found


def _ways(windows: tuple[float, ...]) -> list[tuple[str, float, int | None]]:
    """How they come, over how many seconds, and how many begin before it is looked at what came back."""
    spread = [(f"within {window:g} s", window, None) for window in windows]
    return [(MOMENT, 0.0, None), (FAST, 0.0, BURST), *spread]


def _clients(job: Job, serving: Stack) -> contextlib.AbstractContextManager[Holders]:
    return holders(
        job.programs.generator,
        serving.to,
        connections=job.plan.requests,
        most=network.most_files(),
        cpus=job.cpus,
        least=PROCESSES,
    )


@contextlib.contextmanager
def _serving(job: Job, target: str) -> Iterator[Stack]:
    if target == FLOOR:
        with floors(job.programs, job.cpus) as serving:
            yield serving
        return
    connections, most = job.plan.requests, network.most_files()
    gateway = job.gateway if target == GATEWAY else ""
    flags = FROM_DISK if target == DISK else ()
    ways = {"cpus": job.cpus, "gateway": gateway, "flags": flags}
    with stack(job.programs, connections=connections, most=most, **ways) as serving:
        yield serving


@contextlib.contextmanager
def _watched(serving: Stack) -> Iterator[dict]:
    """What the kernel counts, and the CPU time that is taken."""
    seen: dict = {}
    before, used = network.counters(), serving.cpu_seconds()
    yield seen
    seen["kernel"] = network.since(before)
    seen["cpu_seconds"] = {
        name: value - used[name] for name, value in serving.cpu_seconds().items()
    }


def _cell(stage: Stage, seen: dict) -> dict:
    cpu_seconds = {**seen["cpu_seconds"], "generator": stage.cpu_seconds}
    return {
        "requests": stage.count,
        "failed": stage.failed,
        "faults": stage.faults,
        "most_at_once": stage.most_at_once,
        "seconds": stage.last("answered_ms") / 1e3,
        "begun_s": stage.last("begun_ms") / 1e3,
        "answer_ms": stage.times("answered_ms"),
        "begun_s_each": stage.begun_of("answered_ms"),
        "since_due_ms": stage.times("answered_ms", "due_ms"),
        "kernel": seen["kernel"],
        "cpu_seconds": cpu_seconds,
    }


def _settled() -> None:
    """Waits until no more connections end: those of clients have then, a gateway keeps its own."""
    deadline = time.monotonic() + PATIENCE
    before = None
    while (now := network.connections()) != before:
        if time.monotonic() > deadline:
            raise ToolError(f"connections still end after {PATIENCE:.0f} s")
        before = now
        time.sleep(STEP)
