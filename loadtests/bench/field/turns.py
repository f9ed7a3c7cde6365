"""Contenders whose code is compiled while they run: they are started once, run only while they are measured, and are
measured again if much was compiled meanwhile. How long a warm-up must be need not be guessed: the kernel counts what
the compiler's threads take."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from loadtests.bench import cpu
from loadtests.bench.experiment.plan import Row
from loadtests.bench.field.contender import Contender
from loadtests.bench.field.running import Running, wait_until_right
from loadtests.bench.field.workloads import Workload, first_of
from tools.errors import ToolError

RIGHT = 5
"""Right replies, after which it is taken to be awake."""

BETWEEN = 0.005
"""Seconds between two of them."""

AWAKE = 2.0
"""Longest wait for one."""


class Turns:
    """Keeps what a just-in-time compiler has made of a server, which takes it half a minute.

    Between its turns a contender is stopped (SIGSTOP, signal(7)), so that it does not
    disturb the others. `start` is called for its first one; `prepare` warms it up then.
    """

    def __init__(
        self,
        start: Callable[[Contender], AbstractContextManager[Running]],
        prepare: Callable[[Running], None] = lambda _process: None,
    ) -> None:
        self._start, self._prepare = start, prepare
        self._alive: dict[str, tuple[Running, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _process, stack in self._alive.values():
            stack.close()

    @contextmanager
    def of(self, contender: Contender) -> Iterator[Running]:
        """Its turn: started and warmed up when it is the first, else continued."""
        if contender.name not in self._alive:
            with ExitStack() as stack:
                process = stack.enter_context(self._start(contender))
                self._prepare(process)
                self._alive[contender.name] = process, stack.pop_all()
        process, _ = self._alive[contender.name]
        os.killpg(process.process.pid, signal.SIGCONT)
        self._wake(process, first_of(contender))
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.process.pid, signal.SIGSTOP)

    @staticmethod
    def _wake(process: Running, workload: Workload) -> None:
        """Its clocks stood still, and it may take the pause for a slow client's at first: actix-web did (408)."""
        with suppress(ToolError):
            for _ in range(RIGHT):
                wait_until_right(process, workload, AWAKE)
                time.sleep(BETWEEN)


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
