"""CPU time of processes, and how busy the machine is."""

import ctypes
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

_libc = ctypes.CDLL(None)
_TICKS = os.sysconf("SC_CLK_TCK")


def seconds(pid: int) -> float:
    """CPU time of a process since its start.

    Its CPU clock (clock_getcpuclockid(3)) counts in nanoseconds like /proc/PID/task/*/schedstat,
    but keeps the time of threads that have ended.
    """
    clock = ctypes.c_int()
    if _libc.clock_getcpuclockid(pid, ctypes.byref(clock)) == 0:
        try:
            return time.clock_gettime(clock.value)
        except OSError:
            pass
    raise ToolError(f"process {pid} ended while it was measured: see make logs")


def threads(pid: int) -> dict[int, float]:
    """CPU seconds of each thread that lives, from its schedstat
    (Documentation/scheduler/sched-stats.rst)."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since
    return found


def children() -> float:
    """CPU time of the ended children of this process."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True)
class Machine:
    """CPU seconds of the whole machine since boot (proc_stat(5))."""

    busy: float
    stolen: float

    @classmethod
    def now(cls) -> "Machine":
        """Reads the counters."""
        line = Path("/proc/stat").read_text().splitlines()[0]
        user, nice, system, _idle, _iowait, irq, softirq, stolen = map(int, line.split()[1:9])
        return cls((user + nice + system + irq + softirq) / _TICKS, stolen / _TICKS)


@dataclass
class Watch:
    """What processes and the rest of the machine did since it was made."""

    used: Callable[[], float]
    """CPU seconds of the processes until now."""

    def __post_init__(self) -> None:
        self._begun = self._now()

    def seen(self, generator: float = 0.0) -> dict[str, float]:
        """Their CPU seconds, and the cores that others had; the generator's are given."""
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
