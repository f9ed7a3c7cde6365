"""10,000 connections at once, with the kernel's sysctls of a pod and with those of the node tuner."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from loadtests.bench import ab, cpu
from loadtests.bench.connections.clients import holders, quantiles
from loadtests.bench.connections.part import ConnectionsStand, Part, Rows
from loadtests.bench.connections.servers import STATIC, Replica
from loadtests.bench.experiment.page import Page, cell, table
from loadtests.bench.experiment.plan import Row
from loadtests.bench.networks import COUNTERS, SERVER, Pair, dropped_packets, joined
from tools.errors import ToolError

PROFILE = "web-10k"
"""Of the node tuner."""

PORT = 8080
PATIENCE = 15.0
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
    method = (
        f"`ab -r -n {REQUESTS} -c {CONNECTIONS}` for `/static/`, 10,831 bytes, without keep-alive: the C10k run. ab replaces every "
        "connection that ends and stops at its last reply, so its figures exclude connections without a reply by "
        "then. All at once: the load generator opens all connections at the same time, sends one request on each, and waits "
        "for every one of them. A time counts from the first SYN. The stopped server gets SIGSTOP just before, and continues half "
        "a second later, like a server whose CPU was preempted.\n\nEach run has two network namespaces, one for the server "
        "and one for the clients, with a virtual link between them. The sysctls are those that `node-tuner generate` prints for "
        "pods, without and with `--unsafe`. The server has those of the server, the clients have those of the gateway, which "
        "opens connections to the server. The profile's settings of the host, such as `net.core.netdev_max_backlog`, are not "
        "applied. The server's own limits are above the number of requests."
    )

    def prepare(self, stand: ConnectionsStand) -> None:
        tuner = stand.programs.tools["node-tuner"]
        self._settings = {DEFAULTS: Settings()}
        for name, flags in ((SAFE, ()), (UNSAFE, ("--unsafe",))):
            server, client = (_generated(tuner, pods, flags) for pods in ("service", "gateway"))
            backlog = int(server.get(SOMAXCONN, BACKLOG))
            self._settings[name] = Settings(server, client, backlog)
        with joined() as pair:
            defaults = {name: pair.server.read(name) for name in SHOWN}
        stand.facts["sysctls"] = {
            name: {
                "server": {**(settings.server or defaults), "--backlog": str(settings.backlog)},
                "client": settings.client or defaults,
            }
            for name, settings in self._settings.items()
        }

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        for case, title in CASES.items():
            for arm in arms:
                row = _sample(stand, self._settings[arm], case)
                yield {"arm": arm, "line": f"{title}: {arm}", **row}

    def brief(self, row: Row) -> str:
        return (
            f"{row['line']}: {row['seconds']:.2f} s, p99 {row['times_ms'].get('p99', 0):.0f} ms, {row['wrong']} wrong, "
            f"{row['kernel']['TCPSynRetrans']} SYNs sent again"
        )

    def reading(self, rows: Rows) -> Iterator[str]:
        for case in CASES.values():
            for arm in (SAFE, UNSAFE):
                line, base = f"{case}: {arm}", f"{case}: {DEFAULTS}"
                if ratios := rows.ratios("times_ms.p99", line, base):
                    same = (
                        " (the same within the spread)" if min(ratios) <= 1 <= max(ratios) else ""
                    )
                    again = [
                        cell(rows.values(one, "kernel.TCPSynRetrans"), 0) for one in (line, base)
                    ]
                    yield (
                        f"{line.capitalize()}: the 99th percentile is {cell(ratios, 2)} times that with the defaults{same}; "
                        f"{again[0]} SYNs were sent again, and {again[1]} with the defaults."
                    )

    def report(self, page: Page, rows: Rows) -> None:
        times = (
            *(
                ("wrong", "wrong", 0),
                ("p50, ms", "times_ms.p50", 0),
                ("p99, ms", "times_ms.p99", 0),
            ),
            *(("longest, ms", "times_ms.max", 0), ("duration, s", "seconds", 2)),
        )
        lines = sorted(
            rows.lines(), key=lambda line: list(CASES.values()).index(line.partition(": ")[0])
        )
        rows.table(page, times, lines)
        page.text("Counted by the kernel:")
        kernel = [(name, f"kernel.{name}", 0) for name in (*COUNTERS, "dropped_packets")]
        rows.table(page, kernel, lines)
        page.points(f"`{name}`: {text}" for name, text in COUNTERS.items())
        set_here = [
            [arm, side, f"`{name}`", value]
            for arm, sides in rows.record.facts["sysctls"].items()
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


def _sample(stand: ConnectionsStand, settings: Settings, case: str) -> Row:
    """Starts the server, lets the clients come, and tells what they and the kernel saw."""
    with joined() as pair:
        for side, sysctls in ((pair.server, settings.server), (pair.client, settings.client)):
            for name, value in sysctls.items():
                side.write(name, value)
        with _running(stand, settings, pair) as process:
            before, dropped = pair.counters(), dropped_packets()
            watch = cpu.Watch(lambda: cpu.seconds(process.pid) + cpu.children())
            place = Inside(pair, stand.cpus[1])
            if case == "ab":
                found = _ab(stand, place)
            else:
                stopped = _stopped(process.pid) if case == "stopped" else nullcontext()
                found = _rush(stand, place, stopped)
            seen, after = watch.seen(found.pop("generator", 0.0)), pair.counters()
    kernel = {name: after[name] - before[name] for name in after}
    return {**seen, **found, "kernel": kernel | {"dropped_packets": dropped_packets() - dropped}}


def _ab(stand: ConnectionsStand, place: Inside) -> Row:
    found = ab.run(
        stand.programs.tools["ab"],
        f"http://{SERVER}:{PORT}/static/",
        requests=stand.count(REQUESTS),
        concurrency=stand.count(CONNECTIONS),
        keep_alive=False,
        before=place.argv(),
        # -r: a failed connection is counted and does not end the run.
        more=("-r",),
    )
    return {
        "requests": found.complete,
        # A refusal is of another length than the first reply, so ab counts it twice.
        "wrong": max(found.failed, found.non_2xx) + found.write_errors,
        "faults": {"connect": found.not_connected} if found.not_connected else {},
        "seconds": found.seconds,
        "times_ms": {
            name: found.percentiles[part]
            for name, part in (("p50", "50"), ("p99", "99"), ("max", "100"))
        },
    }


def _rush(stand: ConnectionsStand, place: Inside, stopped) -> Row:
    options = {"page": "/static/", "file": STATIC / "index.html"}
    with holders(stand.programs.generator, [f"{SERVER}:{PORT}"], place, **options) as held:
        # Who has never been asked reads the file.
        held.open(1)
        with stopped:
            stage = held.open(stand.count(CONNECTIONS))
    return {
        "requests": stage.count,
        "wrong": stage.failed,
        "faults": stage.faults,
        "seconds": stage.last("answered_ms"),
        "times_ms": quantiles(stage.times("answered_ms")),
        "generator": stage.cpu_seconds,
    }


@contextmanager
def _running(stand: ConnectionsStand, settings: Settings, pair: Pair) -> Iterator[subprocess.Popen]:
    """The server with one lane, alone on its CPU as in a pod that has it."""
    flags = ("--static.root", str(STATIC))
    replica = Replica("corelane-server", flags, room=REQUESTS, backlog=settings.backlog)
    argv = replica.argv(stand.programs, f"{SERVER}:{PORT}", stand.folder)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            pair.server.inside("taskset", "-c", str(stand.cpus[0]), *argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not pair.server.listens(PORT):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise ToolError(f"the server does not start:\n{output.read().decode()[-2000:]}")
                time.sleep(0.01)
            yield process
        finally:
            process.kill()
            process.wait()


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """The server does nothing for a while from now on."""
    timer = Timer(HOLD, os.kill, (pid, signal.SIGCONT))
    os.kill(pid, signal.SIGSTOP)
    timer.start()
    try:
        yield
    finally:
        timer.join()
