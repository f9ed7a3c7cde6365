"""Contenders that are started once for all rounds, and run only while it is their turn."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Self

from loadtests.bench.field import measures
from loadtests.bench.field.bench import Bench, Seconds
from loadtests.bench.field.contender import PROJECTS, Contender
from loadtests.bench.field.projects import Store
from loadtests.bench.field.running import Running, check
from loadtests.bench.field.workloads import first_of
from tools.errors import ToolError


class Turns:
    """Keeps what a just-in-time compiler has made of a server, which takes it half a minute.

    Between its turns a contender is stopped (SIGSTOP, signal(7)), so that it takes nothing from
    whoever is measured.
    """

    def __init__(self, bench: Bench, seconds: Seconds, kept: Store | None) -> None:
        self._bench, self._seconds, self._kept = bench, seconds, kept
        self._alive: dict[str, tuple[Running, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._alive):
            self.end(name)

    @contextmanager
    def of(self, contender: Contender) -> Iterator[Running]:
        """Its turn: started and warmed up when it is the first, else continued."""
        if contender.name not in self._alive:
            self._start(contender)
        process, _ = self._alive[contender.name]
        os.killpg(process.process.pid, signal.SIGCONT)
        # Who comes first meets clocks that stood still: actix-web took the pause for a slow client's (408).
        with suppress(ToolError):
            check(process, first_of(contender))
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.process.pid, signal.SIGSTOP)

    def end(self, name: str) -> None:
        """Ends it, if it runs."""
        if name in self._alive:
            _, stack = self._alive.pop(name)
            stack.close()

    def _start(self, contender: Contender) -> None:
        database = None
        if self._kept and PROJECTS in contender.workloads:
            database = self._kept.fresh()
        with ExitStack() as stack:
            process = stack.enter_context(self._bench.running(contender, database=database))
            measures.warm_up(self._bench, process, contender, self._seconds.warm_up)
            self._alive[contender.name] = process, stack.pop_all()
