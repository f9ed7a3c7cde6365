"""Measures CPU time and other kernel counters of processes, and how busy the machine was."""

import ctypes
import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

_libc = ctypes.CDLL(None)
_TICKS = os.sysconf("SC_CLK_TCK")


def seconds(pid: int) -> float:
    """CPU time of a process since its start.

    The process's CPU clock (clock_getcpuclockid(3)) counts in nanoseconds like
    /proc/PID/task/*/schedstat, but includes threads that have ended.
    """
    clock = ctypes.c_int()
    if _libc.clock_getcpuclockid(pid, ctypes.byref(clock)) == 0:
        try:
            return time.clock_gettime(clock.value)
        except OSError:
            pass
    raise ToolError(f"process {pid} ended while it was measured: see make logs")


class Family:
    """CPU time of processes; an exited process keeps its last known value."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._used: dict[int, float] = {}

    def seconds(self) -> float:
        for pid in self._pids():
            with suppress(ToolError):
                self._used[pid] = seconds(pid)
        return sum(self._used.values())


def threads(pid: int, names: tuple[str, ...]) -> float:
    """CPU seconds of live threads with this name prefix (proc_pid_comm(5)), from schedstat
    (Documentation/scheduler/sched-stats.rst).
    """
    used = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        # The thread may have exited meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            if (task / "comm").read_text().startswith(names):
                used += int((task / "schedstat").read_text().split()[0]) / 1e9
    return used


def children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True)
class Machine:
    """CPU seconds of the whole machine since boot (proc_stat(5))."""

    busy: float
    stolen: float

    @classmethod
    def now(cls) -> "Machine":
        line = Path("/proc/stat").read_text().splitlines()[0]
        user, nice, system, _idle, _iowait, irq, softirq, stolen = map(int, line.split()[1:9])
        return cls((user + nice + system + irq + softirq) / _TICKS, stolen / _TICKS)


@dataclass
class Watch:
    """Counts the CPU time that processes and the rest of the machine have used since this object
    was created.
    """

    used: Callable[[], float]

    def __post_init__(self) -> None:
        self._begun = self._now()

    def seen(self, generator: float = 0.0) -> dict[str, float]:
        """CPU seconds of the processes, and cores used by other processes; the caller passes the
        generator's seconds.
        """
        (before, used, machine, own), (at, now, after, mine) = self._begun, self._now()
        others = after.busy - machine.busy - (now - used) - (mine - own) - generator
        return {
            "wall": at - before,
            "cpu_seconds": now - used,
            "others_cores": max(0.0, others) / (at - before),
            "stolen_cores": (after.stolen - machine.stolen) / (at - before),
        }

    def _now(self) -> tuple[float, float, Machine, float]:
        return time.monotonic(), self.used(), Machine.now(), time.process_time()


@dataclass
class Counters:
    """User and system seconds of processes during a load, and how often their threads waited."""

    user: float = 0.0
    system: float = 0.0
    sleeps: int = 0

    @contextmanager
    def of(self, pids: Sequence[int]) -> Iterator[None]:
        """Counts while the context is open."""
        before = _counted(pids)
        yield
        after = _counted(pids)
        self.user, self.system = after.user - before.user, after.system - before.system
        self.sleeps = after.sleeps - before.sleeps

    def per_request(self, requests: int) -> dict[str, float]:
        total = self.user + self.system
        return {
            "user_share": self.user / total if total else 0.0,
            "sleeps": self.sleeps / requests,
        }


def _counted(pids: Iterable[int]) -> Counters:
    found = Counters()
    for pid in pids:
        # The third field follows the name, which may contain any character (proc_pid_stat(5)).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found.user += int(fields[11]) / _TICKS
        found.system += int(fields[12]) / _TICKS
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found.sleeps += _waits((task / "status").read_text())
    return found


def _waits(status: str) -> int:
    """voluntary_ctxt_switches of proc_pid_status(5)."""
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["voluntary_ctxt_switches"])
