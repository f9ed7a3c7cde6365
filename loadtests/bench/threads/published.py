"""The published figures of the test that this one repeats, on its author's machine."""

from dataclasses import dataclass

SOURCE = "the README of mini-http-server (C++: accept loop, queue behind a mutex, N workers)"


@dataclass(frozen=True)
class Published:
    """Time of a request with one thread and with many, of 5 million iterations."""

    requests: int
    connections: int
    threads: int
    one_ms: float
    many_ms: float

    @property
    def speed_up(self) -> float:
        """As published."""
        return self.one_ms / self.many_ms

    @property
    def one_each_ms(self) -> float:
        """One request each so many ms, with one thread: in a closed loop the time of a request is that
        of all who are before it (Little's law: connections = rate × time)."""
        return self.one_ms / self.connections

    @property
    def many_each_ms(self) -> float:
        """The same with many threads."""
        return self.many_ms / self.connections


ROWS = (
    Published(10_000, 20, 20, 118.0, 6.4),
    Published(1_000, 1_000, 16, 7_986.0, 392.0),
    Published(10_000, 1_000, 16, 8_332.0, 340.0),
    Published(100_000, 1_000, 16, 12_608.0, 405.0),
)

TINY_ONE_MS, TINY_SIXTEEN_MS = 0.118, 0.121
"""Tiny work: one thread and sixteen."""
