"""Servers whose code is compiled while they run: what is measured while much of it is, is measured again.

How long a warm-up must be need not be guessed: the kernel counts what the compiler's threads take.
"""

import time
from collections.abc import Callable
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.experiment.plan import Row
from loadtests.bench.field.running import Running

SHARE = 0.02
"""Of the CPU time of a measurement that may be the compiler's."""


def settled(process: Running, longest: float, measure: Callable[[], Row]) -> Row:
    """The first measurement that is nearly free of compiling, or the first after so many seconds;
    `compiling` is the compiler's share."""
    compilers = process.contender.compilers
    if not compilers:
        return measure()
    deadline = time.monotonic() + longest
    while True:
        before, begun = _compiler_seconds(process), process.cpu_seconds()
        row = measure()
        used = process.cpu_seconds() - begun
        share = max(0.0, _compiler_seconds(process) - before) / used
        if share <= SHARE or time.monotonic() > deadline:
            return {**row, "compiling": share}


def _compiler_seconds(process: Running) -> float:
    """CPU time of the threads that compile, by their names (proc_pid_comm(5))."""
    return sum(
        used
        for pid in process.pids
        for thread, used in cpu.threads(pid).items()
        if _name(pid, thread).startswith(process.contender.compilers)
    )


def _name(pid: int, thread: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended since
