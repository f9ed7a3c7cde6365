"""Servers whose code is compiled while they run: what is measured while much of it is, is measured again.

How long a warm-up must be need not be guessed: the kernel counts what the compiler's threads take.
"""

import time
from collections.abc import Callable
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.field.contender import Contender
from loadtests.bench.field.running import Running

SHARE = 0.02
"""Of the CPU time of a measurement that may be the compiler's."""

Measured = tuple[float, dict]
"""CPU seconds, and the result."""


def measured(
    process: Running, contender: Contender, longest: float, measure: Callable[[], Measured]
) -> Measured:
    """The first that is nearly free of compiling, or the first after so many seconds; its result tells the compiler's share."""
    if not contender.compilers:
        return measure()
    deadline = time.monotonic() + longest
    while True:
        before = _compiler_seconds(process, contender)
        used, result = measure()
        share = (_compiler_seconds(process, contender) - before) / used
        if share <= SHARE or time.monotonic() > deadline:
            return used, {**result, "compiling": max(0.0, share)}


def _compiler_seconds(process: Running, contender: Contender) -> float:
    """CPU time of the threads that compile, by their names (proc_pid_comm(5))."""
    return sum(
        used
        for pid in process.pids
        for thread, used in cpu.threads(pid).items()
        if _name(pid, thread).startswith(contender.compilers)
    )


def _name(pid: int, thread: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended since
