"""10,000 connections at once, with the kernel's sysctls of a pod and with those of the node tuner."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from loadtests.bench import ab, cpu
from loadtests.bench.connections.base import ConnectionsBed, Part
from loadtests.bench.connections.clients import holders, quantiles
from loadtests.bench.connections.servers import replica
from loadtests.bench.experiment.page import Figure, Page, table
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import STATIC
from loadtests.bench.networks import COUNTERS, SERVER, Kernel, Pair, joined
from stack.process import Process, wait_for
from tools.errors import ToolError

PROFILE = "web-10k"
"""Of the node tuner."""

PORT = 8080
REQUESTS, CONNECTIONS = 13_000, 10_000

HOLD = 0.5
"""For so long the held server does nothing while its clients come; who is not heard asks again after a second
(RFC 6298 §2)."""

CASES = {"ab": "ab", "rush": "all at once", "stopped": "all at once at a stopped server"}
DEFAULTS, SAFE, UNSAFE = "kernel's defaults", "safe sysctls", "unsafe sysctls too"

SOMAXCONN = "net.core.somaxconn"
BACKLOG = 4096
"""The server's own default, which is also the kernel's of somaxconn."""

SHOWN = (SOMAXCONN, "net.ipv4.tcp_max_syn_backlog", "net.ipv4.ip_local_port_range")
"""The defaults that the report shows."""


@dataclass(frozen=True)
class Settings:
    """Sysctls of both sides, and the accept queue that the server requests."""

    server: dict[str, str] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)
    backlog: int = BACKLOG


@dataclass(frozen=True)
class Inside:
    """A place for clients: in their namespace, on a CPU."""

    pair: Pair
    cpu: int

    def argv(self) -> list[str]:
        """What their command begins with."""
        return self.pair.client.inside("taskset", "-c", str(self.cpu))


class Tuned(Part):
    """Two namespaces and a server for each run."""

    scenario = "tuned"
    name = "burst"
    title = "10,000 connections at once: the kernel's sysctls of pods, and the profile's"
    arms = (DEFAULTS, SAFE, UNSAFE)
    rounds = 1.8
    tools = ("ab", "node-tuner")
    tables = (
        (
            Figure("wrong", "wrong", 0),
            *(Figure(f"{key}, ms", f"times_ms.{key}", 0) for key in ("p50", "p99", "max")),
            Figure("duration, s", "seconds"),
        ),
        tuple(Figure(name, f"kernel.{name}", 0) for name in (*COUNTERS, "dropped_packets")),
    )

    def prepare(self, bed: ConnectionsBed) -> None:
        tuner = bed.programs.tools["node-tuner"]
        self._settings = {DEFAULTS: Settings()}
        for name, flags in ((SAFE, ()), (UNSAFE, ("--unsafe",))):
            server, client = (_generated(tuner, pods, flags) for pods in ("service", "gateway"))
            backlog = int(server.get(SOMAXCONN, BACKLOG))
            self._settings[name] = Settings(server, client, backlog)
        with joined() as pair:
            defaults = {name: pair.server.read(name) for name in SHOWN}
        bed.facts["sysctls"] = {
            name: {
                "server": {**(settings.server or defaults), "--backlog": str(settings.backlog)},
                "client": settings.client or defaults,
            }
            for name, settings in self._settings.items()
        }

    def measure(self, bed: ConnectionsBed, arms: Sequence[str], number: int) -> Iterator[Row]:
        for case, title in CASES.items():
            for arm in arms:
                row = _sample(bed, self._settings[arm], case)
                yield {"arm": arm, "line": f"{title}: {arm}", **row}

    def report(self, page: Page, record: Record) -> None:
        super().report(page, record)
        page.points(f"`{name}`: {text}" for name, text in COUNTERS.items())
        set_here = [
            [arm, side, f"`{name}`", value]
            for arm, sides in record.facts["sysctls"].items()
            for side, sysctls in sides.items()
            for name, value in sysctls.items()
        ]
        page.text(table(["", "side", "setting", "value"], set_here))


def _generated(tuner: Path, pods: str, flags: Sequence[str]) -> dict[str, str]:
    """The sysctls for these pods, as the node tuner prints them for a values file."""
    argv = [tuner, "--profile", PROFILE, "generate", pods, *flags]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = dict(re.findall(r'^ +([a-z]\S+): "([^"]*)"$', result.stdout, re.MULTILINE))
    if result.returncode != 0 or not found:
        raise ToolError(f"node-tuner generate {pods} printed no sysctls: {result.stderr.strip()}")
    return found


def _sample(bed: ConnectionsBed, settings: Settings, case: str) -> Row:
    """Starts the server, lets the clients come, and tells what they and the kernel saw."""
    with joined() as pair:
        for side, sysctls in ((pair.server, settings.server), (pair.client, settings.client)):
            for name, value in sysctls.items():
                side.write(name, value)
        with _running(bed, settings, pair) as process:
            kernel = Kernel(pair.counters)
            watch = cpu.Watch(lambda: cpu.seconds(process.pid) + cpu.children())
            place = Inside(pair, bed.cpus[1])
            if case == "ab":
                found = _ab(bed, place)
            else:
                stopped = _stopped(process) if case == "stopped" else nullcontext()
                found = _rush(bed, place, stopped)
            seen = watch.seen(found.pop("generator", 0.0))
            return {**seen, **found, "kernel": kernel.counted()}


def _ab(bed: ConnectionsBed, place: Inside) -> Row:
    found = ab.run(
        bed.programs.tools["ab"],
        f"http://{SERVER}:{PORT}/static/",
        requests=bed.count(REQUESTS),
        concurrency=bed.count(CONNECTIONS),
        keep_alive=False,
        before=place.argv(),
        # -r: a failed connection is counted and does not end the run.
        more=("-r",),
    )
    return {
        "requests": found.complete,
        "wrong": found.wrong,
        "faults": {"connect": found.not_connected} if found.not_connected else {},
        "seconds": found.seconds,
        "times_ms": {
            name: found.percentiles[part]
            for name, part in (("p50", "50"), ("p99", "99"), ("max", "100"))
        },
    }


def _rush(bed: ConnectionsBed, place: Inside, stopped) -> Row:
    options = {"page": "/static/", "file": STATIC / "index.html"}
    with holders(bed.programs.generator, [f"{SERVER}:{PORT}"], place, **options) as held:
        # Who has never been asked reads the file.
        held.open(1)
        with stopped:
            stage = held.open(bed.count(CONNECTIONS))
    return {
        "requests": stage.count,
        "wrong": stage.failed,
        "faults": stage.faults,
        "seconds": stage.last("answered_ms"),
        "times_ms": quantiles(stage.times("answered_ms")),
        "generator": stage.cpu_seconds,
    }


@contextmanager
def _running(bed: ConnectionsBed, settings: Settings, pair: Pair) -> Iterator[Process]:
    """The server with one lane, alone on its CPU as in a pod that has it."""
    server = replica("--static.root", str(STATIC), room=REQUESTS, backlog=settings.backlog)
    argv = server.argv(bed.programs, f"{SERVER}:{PORT}", bed.folder)
    argv = pair.server.inside("taskset", "-c", str(bed.cpus[0]), *argv)
    process = Process("tuned", argv, bed.folder, lambda: pair.server.listens(PORT))
    try:
        process.start(wait=False)
        wait_for([process])
        yield process
    finally:
        process.kill()


@contextmanager
def _stopped(process: Process) -> Iterator[None]:
    """The server does nothing for a while from now on."""
    timer = Timer(HOLD, os.kill, (process.pid, signal.SIGCONT))
    process.signal(signal.SIGSTOP)
    timer.start()
    try:
        yield
    finally:
        timer.join()
