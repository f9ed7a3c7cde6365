"""Shows the progress of a run: a line that updates on a terminal, or occasional lines elsewhere."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from loadtests.record import quantiles

EVERY = 1.0
"""Seconds between updates on a terminal and in the run's log."""

ELSEWHERE = 10.0
"""Seconds between lines where earlier lines remain, as in CI."""


class Progress:
    def __init__(
        self,
        name: str,
        log: Path,
        screen: TextIO = sys.stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._screen, self._clock = name, screen, clock
        self._log = log.open("w")
        self._terminal = screen.isatty()
        self._began = self._told = self._shown = clock()
        self._requests = self._failed = self._dropped = self._users = 0
        self._since: list[float] = []

    def request(self, ms: float, failed: bool) -> None:
        self._requests += 1
        self._failed += failed
        self._since.append(ms)
        # The clock is not read for each of many thousands of requests per second.
        if self._requests % 16 == 0:
            self.tick()

    def dropped(self, count: int) -> None:
        """Counts requests that could not be sent."""
        self._dropped += count

    def users(self, count: int) -> None:
        self._users = count
        self.tick()

    def tick(self) -> None:
        now = self._clock()
        if now - self._told < EVERY:
            return
        line = self._line(now)
        self._log.write(line + "\n")
        self._log.flush()
        if self._terminal:
            self._screen.write(f"\r\x1b[K{line}")
            self._screen.flush()
        elif now - self._shown >= ELSEWHERE:
            print(line, file=self._screen, flush=True)
            self._shown = now
        self._told = now
        self._since.clear()

    def say(self, line: str) -> None:
        self._screen.write(("\r\x1b[K" if self._terminal else "") + line)
        self._screen.flush()

    def end(self) -> None:
        if self._terminal:
            self._screen.write("\r\x1b[K")
            self._screen.flush()
        self._log.close()

    def _line(self, now: float) -> str:
        rate = len(self._since) / (now - self._told)
        line = (
            f"{self._name} {now - self._began:5.0f} s  {self._requests:>8,} requests  "
            f"{rate:>7,.0f}/s  {self._failed:,} failed"
        )
        if self._since:
            latencies = sorted(self._since)
            median, p99 = quantiles(latencies, (50, 99))
            line += f"  p50 {median:.2f} ms  p99 {p99:.2f} ms"
        if self._users:
            line += f"  {self._users} users"
        if self._dropped:
            line += f"  {self._dropped:,} not started"
        return line
