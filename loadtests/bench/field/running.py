"""Starts a contender on its CPUs, waits for its first right reply, and ends it."""

import http.client
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.experiment import servers
from loadtests.bench.field.contender import Contender, Start
from loadtests.bench.field.workloads import STATIC, Workload, first_of
from loadtests.bench.free_ports import free_ports
from local.settings import REPOSITORY
from tools.errors import ToolError

PATIENCE = 60.0
"""Longest start; the slowest is a JVM's on one CPU."""

PAUSE = 0.0005
"""Between two tries to connect: what a start is rounded to."""

AHEAD = -20
"""The nice value of a contender's session: the least there is."""


@dataclass
class Running(servers.Running):
    """A contender that answers."""

    contender: Contender
    cpus: list[int]
    ahead: bool = False
    """Whether its threads have the CPU before those of other sessions."""
    start_ms: float = 0.0
    """From its start to its first right reply."""
    used: dict[int, float] = field(default_factory=dict)
    """CPU time of each of its processes as it was last seen, those that have ended included."""

    def cpu_seconds(self) -> float:
        """CPU time since the start. Servers with a process per so many connections end some."""
        for pid in self.pids:
            with suppress(ToolError):
                self.used[pid] = cpu.seconds(pid)
        return sum(self.used.values())

    def resident_kib(self) -> int:
        """Resident memory of all its processes; what they share counts once."""
        parts = [_memory(pid) for pid in self.pids]
        return sum(own for own, _ in parts) + max(shared for _, shared in parts)


@contextmanager
def started(
    contender: Contender,
    program: Path,
    cpus: Sequence[int],
    *,
    ahead: bool = False,
) -> Iterator[Running]:
    """Starts a contender on these CPUs alone, with a thread for each, and kills it at the end.
    `ahead` where no part of the measurement shares them with it."""
    address = f"{servers.HOST}:{free_ports()}"
    with tempfile.TemporaryDirectory(prefix="bench-field-") as name:
        folder = Path(name)
        start = Start(address, len(cpus), folder, STATIC)
        argv = contender.argv(program, start)
        with open(folder / "output", "wb") as output, placed(cpus):
            begun = time.monotonic()
            process = subprocess.Popen(
                argv,
                cwd=REPOSITORY,
                env={**os.environ, **contender.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            ahead = ahead and go_ahead(process.pid)
            found = Running(process, address, contender, list(cpus), ahead)
            _wait_until_up(contender, found, first_of(contender), folder / "output")
            found.start_ms = (time.monotonic() - begun) * 1e3
            yield found
        finally:
            # The group is its own: the workers of nginx and Apache are in it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def placed(cpus: Sequence[int]) -> Iterator[None]:
    """What is started meanwhile runs on these CPUs (sched_setaffinity(2): children inherit it)."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def go_ahead(leader: int) -> bool:
    """Gives the threads of a session priority over others, if the system allows it (sched(7), autogroup).
    Otherwise a thread that wakes waits for the end of a neighbour's slice, some milliseconds. Unlike
    with a real-time priority, the threads still share the CPU among each other."""
    try:
        Path(f"/proc/{leader}/autogroup").write_text(f"{AHEAD}\n")
    except OSError:
        return False
    return True


def _wait_until_up(contender: Contender, found: Running, workload: Workload, output: Path) -> None:
    try:
        wait_until_right(found, workload, PATIENCE)
    except ToolError as error:
        raise ToolError(f"{contender.name} did not start: {error}\n{_end_of(output)}") from None


def wait_until_right(found: Running, workload: Workload, patience: float) -> None:
    """Asks until the reply is right; the last problem, where it never is or the server ended."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return check(found, workload)
        except ToolError as problem:
            if found.process.poll() is not None:
                raise ToolError("it ended") from None
            if time.monotonic() > deadline:
                raise problem from None
        time.sleep(PAUSE)


def check(process: Running, workload: Workload) -> None:
    """Sends one request before the measurement. The error shows a wrong reply."""
    try:
        status, body = servers.ask(process.address, workload.target)
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"no answer to {workload.target}: {error!r}") from None
    if (status, body) != (200, workload.body):
        raise ToolError(f"{workload.target} is answered {_shown(status, body)}")


def _shown(status: int, body: bytes) -> str:
    return f"{status} {body[:60]!r}"


def _end_of(output: Path) -> str:
    return output.read_text(errors="replace")[-2000:]


def _memory(pid: int) -> tuple[int, int]:
    """KiB of a process of its own, and shared with others (proc_pid_smaps(5), smaps_rollup)."""
    found: dict[str, int] = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, value = line.split(":", 1)
            found[name] = int(value.split()[0])
    own = found.get("Private_Clean", 0) + found.get("Private_Dirty", 0)
    return own, found.get("Rss", 0) - own
