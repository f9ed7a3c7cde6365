"""Starts one server under measurement, pinned, and ends it."""

import http.client
import os
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from loadtests.bench import cpu
from loadtests.bench.experiment.builds import Programs
from local.settings import REPOSITORY
from stack.ports import free_ports
from tools.errors import ToolError

CORELANE = "corelane-server"
HOST = "127.0.0.1"
HELLO = b"Hello, World!"
PATIENCE = 15.0

CONNECTIONS = 12_000
"""More than any row opens."""


class Startable(Protocol):
    """What can be put under measurement: a server or a proxy. One whose `tls` is true is asked over TLS, and one with
    `patience` has so many seconds to start."""

    @property
    def name(self) -> str:
        """Its name in tables."""

    def argv(self, programs: Any, address: str, folder: Path) -> list[str]:
        """How it is started; what it writes goes into the folder."""


@dataclass(frozen=True)
class Server:
    """corelane-server with one lane, pinned."""

    name: str = CORELANE

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        return corelane(programs.server, address, 1)


def corelane(
    program: Path, address: str, lanes: int, placement: str = "", *, pin: bool = True
) -> list[str]:
    """The command of corelane-server."""
    argv = [str(program), "--listen", address, "--admin.listen", f"{HOST}:0"]
    argv += ["--lanes", str(lanes), "--pin", "on" if pin else "off"]
    argv += ["--replica", "bench", "--log.level", "warn"]
    argv += ["--limits.connections", str(CONNECTIONS)]
    return [*argv, "--placement", placement] if placement else argv


def ask(address: str, path: str, *, tls: bool = False) -> tuple[int, bytes]:
    """Status and body of one reply."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    if tls:
        # The certificate is self-signed.
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(address, timeout=PATIENCE, context=context)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def metrics(admin: str) -> str:
    """What a server's admin listener shows."""
    try:
        return ask(admin, "/metrics")[1].decode()
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"{admin} shows no metrics: {error!r}") from None


def total(text: str, name: str) -> float:
    """The sum of all series of a name."""
    lines = (line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def first_cpus(count: int) -> tuple[int, ...]:
    """The CPUs of a run: of those that this process may use, the first."""
    return tuple(sorted(os.sched_getaffinity(0))[:count])


@dataclass
class Running:
    """A server that answers."""

    process: subprocess.Popen[bytes]
    address: str

    @property
    def pids(self) -> list[int]:
        """The process and its children (proc_pid_task_children(5))."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text().split())]

    def cpu_seconds(self) -> float:
        """CPU time since the start, threads that ended included."""
        return sum(map(cpu.seconds, self.pids))

    def thread_seconds(self) -> dict[int, float]:
        """CPU time of each thread that lives."""
        return {thread: used for pid in self.pids for thread, used in cpu.threads(pid).items()}

    def resident_kib(self) -> int:
        """Resident memory of all its processes."""
        return sum(_resident_kib(pid) for pid in self.pids)


@contextmanager
def running(server: Startable, programs: Any, cpus: list[int]) -> Iterator[Running]:
    """Starts a server on these CPUs alone and kills it at the end."""
    address = f"{HOST}:{free_ports()}"
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        argv = ["taskset", "-c", ",".join(map(str, cpus))]
        argv += server.argv(programs, address, folder)
        with open(folder / "output", "wb") as output:
            process = subprocess.Popen(
                argv,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        try:
            found = Running(process, address)
            _wait_until_right(found, server, folder / "output")
            yield found
        finally:
            # The group is its own: nginx's workers are in it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_right(found: Running, server: Startable, output: Path) -> None:
    """Waits for the first right reply."""
    deadline = time.monotonic() + getattr(server, "patience", PATIENCE)
    problem = "no answer"
    while time.monotonic() < deadline:
        if found.process.poll() is not None:
            raise ToolError(f"{server.name} did not start:\n{output.read_text()[-2000:]}")
        try:
            status, body = ask(found.address, "/hello", tls=getattr(server, "tls", False))
        except (OSError, http.client.HTTPException) as error:
            problem = repr(error)
        else:
            if (status, body) == (200, HELLO):
                return
            problem = f"{status} {body!r}"
        time.sleep(0.02)
    raise ToolError(
        f"{server.name} does not answer /hello: {problem}\n{output.read_text()[-2000:]}"
    )


def _resident_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return int(fields["VmRSS"].split()[0])
