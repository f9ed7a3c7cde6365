"""Runs corelane-server under callgrind, and reads its threads' instruction counts after it has
exited."""

import hashlib
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.servers import STATIC, Pem
from loadtests.bench.instructions.exchange import PATIENCE, Lane
from stack.ports import free_ports
from tools.errors import ToolError

TOKEN = "instructions"

CHANGED = 1_700_000_000

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    # Selects glibc's AVX2 versions of memcpy and similar functions, whatever newer features
    # valgrind supports (glibc manual, "Hardware Capability Tunables").
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM,-RTM",
}
"""Complete environment. The environment is on the stack, so a different size would shift everything
below it.
"""

LANE = "lane-0"


@dataclass(frozen=True)
class Settings:
    database: bool = False
    tls: bool = False
    mutual: bool = False
    """Admits only the server's own certificate as a client."""
    slowly: bool = False
    """Also counts cache misses, which no one reads: see rows.py."""


@dataclass
class Counted:
    """A server under callgrind. After it has exited, it provides the instruction counts of its lane
    and of the threads that the lane started.
    """

    port: int
    lane: Lane
    on_lane: int = 0
    beside: int = 0


@contextmanager
def counted(
    valgrind: Path, program: Path, settings: Settings, pem: Pem, folder: Path
) -> Iterator[Counted]:
    """Runs a server in an empty folder, and stops it so that callgrind writes its counts."""
    port = free_ports()
    out = folder / "callgrind"
    argv = [str(valgrind), "--tool=callgrind", "--separate-threads=yes", "--vgdb=no", "--quiet"]
    argv += ["--cache-sim=yes"] if settings.slowly else []
    argv += [f"--callgrind-out-file={out}", *_argv(program, settings, pem, folder, port)]
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    _first_of_all(process)
    try:
        lane, number = _lane(process, folder / "output")
        lane.settle()
        found = Counted(port, lane)
        yield found
        process.send_signal(signal.SIGTERM)
        if process.wait(PATIENCE) != 0:
            raise ToolError(f"the server did not end well:\n{_tail(folder / 'output')}")
    finally:
        process.kill()
        process.wait()
    for file in folder.glob(f"{out.name}-*"):
        thread = int(file.name.rpartition("-")[2])
        if thread == number:
            found.on_lane = _total(file)
        elif thread > number:
            found.beside += _total(file)


def _first_of_all(process: subprocess.Popen[bytes]) -> None:
    """Gives the server real-time priority if that is allowed. A lane measures how long its handlers
    occupy it, and requests that seem expensive take a different code path.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(process.pid, os.SCHED_RR, os.sched_param(1))


def _argv(program: Path, settings: Settings, pem: Pem, folder: Path, port: int) -> list[str]:
    static = folder / "static"
    shutil.copytree(STATIC, static)
    for file in static.iterdir():
        os.utime(file, (CHANGED, CHANGED))
    argv = [str(program), "--listen", f"127.0.0.1:{port:05}", "--admin.listen", "127.0.0.1:0"]
    argv += ["--lanes", "1", "--pin", "off", "--replica", "bench", "--log.level", "warn"]
    argv += ["--drain.settle", "0s", "--static.root", str(static)]
    # Programs take about fifty times as long under callgrind, but none of these requests may count
    # as expensive.
    argv += ["--slow-lanes.mode", "on", "--slow-lanes.bound", "1s"]
    if settings.database:
        tokens = folder / "tokens"
        tokens.write_text(f"bench sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
        argv += ["--database.path", str(folder / "projects.db"), "--auth.tokens", str(tokens)]
    if settings.tls:
        argv += ["--tls.certificate", str(pem[0]), "--tls.key", str(pem[1])]
    if settings.mutual:
        argv += ["--tls.clients.ca", str(pem[0]), "--tls.clients.allow", "bench"]
    return argv


def _lane(process: subprocess.Popen[bytes], output: Path) -> tuple[Lane, int]:
    """Waits for the lane's thread; returns it and its number in valgrind, which numbers threads
    from 1 as they start. No earlier thread ends before the server does.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        # Thread IDs increase in the same order as valgrind's numbers.
        threads = sorted(int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir())
        for number, thread in enumerate(threads, 1):
            if _name(process.pid, thread) == LANE:
                return Lane(process.pid, thread), number
        if process.poll() is not None or time.monotonic() > deadline:
            raise ToolError(f"the server does not start under callgrind:\n{_tail(output)}")
        time.sleep(0.01)


def _name(pid: int, thread: int) -> str:
    return Path(f"/proc/{pid}/task/{thread}/comm").read_text().strip()


def _tail(output: Path) -> str:
    return output.read_text(errors="replace")[-2000:]


def _total(file: Path) -> int:
    return int(re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE)[1])


def trusting() -> ssl.SSLContext:
    """A client context that accepts any certificate: TLS 1.3 with a single cipher."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
