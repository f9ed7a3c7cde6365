"""One run of ab against one server, in namespaces of their own."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Self

from loadtests.bench import ab, cpu
from loadtests.bench.experiment.generator import Generator
from loadtests.bench.tuning.arms import Arm
from loadtests.bench.tuning.networks import SERVER, Pair, joined
from local.settings import REPOSITORY
from tools.errors import ToolError

PORT = 8080
PAGE = "/static/"
STATIC = REPOSITORY / "services" / "server" / "static"
PATIENCE = 15.0
PARTS = ("50", "99", "100")
"""Percent of the requests whose times are kept."""

HOLD = 0.5
"""For so long the held server does nothing while its clients come; who is not heard asks again after a
second (RFC 6298 §2)."""

CASES = ("ab", "rush", "held")
"""S1's own command; all connections in the same moment; the same, while the server is held."""


@dataclass(frozen=True)
class Load:
    """What the clients ask for: `ab -n REQUESTS -c CONNECTIONS`, or one request on each connection."""

    requests: int = 13_000
    connections: int = 10_000


@dataclass(frozen=True)
class Programs:
    """What runs."""

    server: Path
    ab: Path
    generator: Path


@dataclass(frozen=True)
class Side:
    """Where the clients are."""

    pair: Pair
    cpu: int

    def argv(self) -> list[str]:
        """What their command begins with."""
        return self.pair.client.inside("taskset", "-c", str(self.cpu))


def sample(programs: Programs, load: Load, arm: Arm, case: str, cpus: tuple[int, int]) -> dict:
    """Starts the server, lets the clients come, and tells what they and the kernel saw."""
    with joined() as pair:
        arm.write(pair)
        with _running(programs.server, load, arm, pair, cpus[0]) as process:
            side = Side(pair, cpus[1])
            before, dropped, usage = pair.counters(), _dropped(), Usage.now(process.pid)
            if case == "ab":
                found = _ab(programs.ab, load, side)
            else:
                found = _rush(programs.generator, load, side, process.pid, case == "held")
            shares = Usage.now(process.pid).since(usage)
            after = pair.counters()
    return {
        **found,
        "kernel": {name: after[name] - before[name] for name in after},
        "dropped_packets": _dropped() - dropped,
        **shares,
    }


def _ab(program: Path, load: Load, side: Side) -> dict:
    found = ab.run(
        program,
        f"http://{SERVER}:{PORT}{PAGE}",
        requests=load.requests,
        concurrency=load.connections,
        keep_alive=False,
        before=side.argv(),
        # -r: what a connection that breaks costs is to be seen, not the end of the run.
        more=("-r",),
    )
    return {
        "requests": found.complete,
        # A refusal is of another length than the first reply, so ab counts it twice.
        "wrong": max(found.failed, found.non_2xx) + found.write_errors,
        "faults": {"connect": found.not_connected} if found.not_connected else {},
        "seconds": found.seconds,
        "percentiles": {part: found.percentiles[part] for part in PARTS},
    }


def _rush(program: Path, load: Load, side: Side, pid: int, held: bool) -> dict:
    options = {"connections": load.connections, "page": PAGE, "file": STATIC / "index.html"}
    clients = Generator(program, side, "rush", f"{SERVER}:{PORT}", **options)
    with clients, _held(pid) if held else nullcontext():
        found = clients.measure()
    times = found["latency_us"].get("hello", dict.fromkeys(PARTS, 0.0))
    return {
        "requests": found["requests"],
        "wrong": found["wrong"],
        "faults": found["faults"],
        "seconds": found["seconds"],
        "percentiles": {part: times[part] / 1e3 for part in PARTS},
    }


@dataclass(frozen=True)
class Usage:
    """CPU time so far: of the server and the clients that have ended, and of the machine."""

    at: float
    own: float
    machine: cpu.Machine

    @classmethod
    def now(cls, pid: int) -> Self:
        """Reads the clocks."""
        return cls(time.monotonic(), cpu.seconds(pid) + cpu.children(), cpu.Machine.now())

    def since(self, before: Self) -> dict[str, float]:
        """The cores that others had."""
        wall = self.at - before.at
        busy = self.machine.busy - before.machine.busy - (self.own - before.own)
        return {
            "others_cores": max(0.0, busy) / wall,
            "stolen_cores": (self.machine.stolen - before.machine.stolen) / wall,
        }


@contextmanager
def _running(server: Path, load: Load, arm: Arm, pair: Pair, number: int) -> Iterator:
    """The server with one lane, alone on its CPU as in a pod that has it."""
    # More than the clients open: no limit of the server's own is to be what is measured.
    most = str(load.requests)
    argv = [server, "--listen", f"{SERVER}:{PORT}", "--admin.listen", "127.0.0.1:0"]
    argv += ["--lanes", "1", "--pin", "on", "--replica", "bench", "--log.level", "error"]
    argv += ["--limits.connections", most, "--limits.queue", most]
    argv += ["--static.root", STATIC, "--backlog", str(arm.backlog)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            pair.server.inside("taskset", "-c", str(number), *argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not _listens(pair, process.pid):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise ToolError(f"the server does not start:\n{output.read().decode()[-2000:]}")
                time.sleep(0.01)
            yield process
        finally:
            process.kill()
            process.wait()


def _listens(pair: Pair, pid: int) -> bool:
    """Whether a socket of its namespace listens at the port (proc_net_tcp(5): state 0A)."""
    lines = Path(f"/proc/{pair.server.pid}/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return any(row[1].endswith(f":{PORT:04X}") and row[3] == "0A" for row in rows)


@contextmanager
def _held(pid: int) -> Iterator[None]:
    """The server is stopped for a while from now on."""
    timer = Timer(HOLD, os.kill, (pid, signal.SIGCONT))
    os.kill(pid, signal.SIGSTOP)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def _dropped() -> int:
    """Packets that found a CPU's input queue full, on the whole machine: netdev_max_backlog of
    Documentation/admin-guide/sysctl/net.rst, which no namespace has of its own."""
    lines = Path("/proc/net/softnet_stat").read_text().splitlines()
    return sum(int(line.split()[1], 16) for line in lines)
