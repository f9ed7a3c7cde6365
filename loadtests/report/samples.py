"""Latencies as they were measured: exact percentiles in bounded memory.

Quantiles cannot be computed from other quantiles, so every latency is kept, in 8 bytes. Beyond a limit they go
to a file, and are sorted by merging its sorted pieces.
"""

import heapq
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO

LIMIT = 1 << 20
"""Latencies held in memory; sorting them takes about 40 bytes each."""

Place = tuple[int, int]
"""Where a piece of a file begins, and how many latencies it has."""


class Spool:
    """The memory that series of latencies share."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the spool)
        self._series: list[Series] = []
        self._held = 0

    def series(self) -> "Series":
        """A new series."""
        self._series.append(Series(self))
        return self._series[-1]

    def took(self) -> None:
        """A series has one more latency in memory."""
        self._held += 1
        if self._held > self.limit:
            for series in self._series:
                series.spill()
            self._held = 0

    def write(self, values: array) -> Place:
        """Puts latencies into the file."""
        return _append(self._file, values)

    def read(self, place: Place) -> array:
        """The latencies of one place."""
        return _read(self._file, place)


class Series:
    """Latencies of one route, by the second in which their requests were sent."""

    def __init__(self, spool: Spool) -> None:
        self.count = 0
        self._spool = spool
        self._held: dict[int, array] = {}
        self._spilled: dict[int, list[Place]] = {}

    def add(self, second: int, latency: float) -> None:
        """One more."""
        self.count += 1
        held = self._held.get(second)
        if held is None:
            held = self._held[second] = array("d")
        held.append(latency)
        self._spool.took()

    def spill(self) -> None:
        """Moves what is in memory to the file."""
        for second, values in self._held.items():
            self._spilled.setdefault(second, []).append(self._spool.write(values))
        self._held.clear()

    def seconds(self) -> list[int]:
        """The seconds that have any."""
        return sorted(self._held.keys() | self._spilled.keys())

    def of(self, seconds: Iterable[int]) -> Iterator[array]:
        """The latencies of these seconds, in pieces."""
        for second in seconds:
            yield from map(self._spool.read, self._spilled.get(second, ()))
            if second in self._held:
                yield self._held[second]


def ordered(pieces: Iterable[array], limit: int = LIMIT) -> Iterator[float]:
    """All latencies of the pieces, from the lowest to the highest."""
    gathered = array("d")
    with tempfile.TemporaryFile() as file:
        sorted_places: list[Place] = []
        for piece in pieces:
            gathered += piece
            if len(gathered) > limit:
                sorted_places.append(_append(file, array("d", sorted(gathered))))
                gathered = array("d")
        yield from heapq.merge(
            sorted(gathered), *(_stream(file, place, limit) for place in sorted_places)
        )


def quantiles(values: Iterator[float], count: int, percents: Iterable[float]) -> list[float]:
    """Percentiles of values in order, `percents` rising: as k6 has them, interpolated between the two nearest."""
    found: list[float] = []
    below, current, at = 0.0, 0.0, -1
    for percent in percents:
        exact = (count - 1) * percent / 100
        rank = int(exact)
        # Up to the value above the rank, with the one below it.
        for value in islice(values, max(0, min(rank + 1, count - 1) - at)):
            below, current, at = current, value, at + 1
        if at == rank:
            found.append(current)
        else:
            found.append(below + (current - below) * (exact - rank))
    return found


def _append(file: BinaryIO, values: array) -> Place:
    start = file.seek(0, 2)
    file.write(values.tobytes())
    return start, len(values)


def _read(file: BinaryIO, place: Place) -> array:
    start, count = place
    values = array("d")
    file.seek(start)
    values.frombytes(file.read(count * values.itemsize))
    return values


def _stream(file: BinaryIO, place: Place, limit: int) -> Iterator[float]:
    """A sorted piece, read a little at a time so that all pieces together fit."""
    start, count = place
    step = max(1, limit // 64)
    size = array("d").itemsize
    for first in range(0, count, step):
        yield from _read(file, (start + first * size, min(step, count - first)))
