"""Processes of the generator that hold connections: as many as the limit of open files asks for."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.generator import Generator, Place
from loadtests.ladder.network import PORTS
from loadtests.ladder.stack import PAGE

COLUMNS = ("due_ms", "begun_ms", "connected_ms", "answered_ms")

AHEAD_NS = 50_000_000
"""So that every process has read its line when they begin."""


@dataclass(frozen=True)
class Stage:
    """What connections did together: a column has an entry for each, in milliseconds from the begin."""

    columns: dict[str, list[float | None]]
    faults: dict[str, int]
    most_at_once: int
    seconds: float
    cpu_seconds: float
    """Of the generator."""

    @property
    def count(self) -> int:
        """How many took part."""
        return len(self.columns["due_ms"])

    @property
    def failed(self) -> int:
        """How many did not end as they should."""
        return sum(self.faults.values())

    def times(self, end: str, begin: str = "begun_ms") -> list[float]:
        """How long each took from one thing to the other, shortest first."""
        pairs = zip(self.columns[end], self.columns[begin], strict=True)
        return sorted(last - first for last, first in pairs if last is not None)

    def begun_of(self, end: str) -> list[float]:
        """When those began of whom `times` tells, in its order, in seconds."""
        pairs = zip(self.columns[end], self.columns["begun_ms"], strict=True)
        found = sorted((last - first, first) for last, first in pairs if last is not None)
        return [first / 1e3 for _, first in found]

    def last(self, column: str) -> float:
        """When the last of them did it."""
        return max((time for time in self.columns[column] if time is not None), default=0.0)


class Holders:
    """Several processes that do the same at the same time."""

    def __init__(self, generators: Sequence[Generator]) -> None:
        self._generators = generators
        self._pool = ThreadPoolExecutor(max(1, len(generators)))

    def open(
        self,
        connections: int,
        seconds: float,
        *,
        ask: bool,
        burst: int | None = None,
        window: int | None = None,
    ) -> Stage:
        """Opens so many more in all, spread over so long.

        After `burst` of them each process looks at what came back; without it, after all that are due.
        It has at most `window` of them under way.
        """
        count = len(self._generators)
        shares = [connections // count + (index < connections % count) for index in range(count)]
        lines = [{"do": "open", "connections": share, "ask": ask} for share in shares]
        return self._stage(lines, {"seconds": seconds, "burst": burst, "window": window})

    def ask(self, seconds: float) -> Stage:
        """One request on each."""
        return self._stage([{"do": "ask"} for _ in self._generators], {"seconds": seconds})

    def look(self) -> dict:
        """How many are still there, and what has become of the others."""
        found = self._tell([{"do": "look"} for _ in self._generators])
        refusals: Counter[str] = Counter()
        for one in found:
            refusals.update(one["refusals"])
        return {
            "connections": sum(one["connections"] for one in found),
            "open": sum(one["open"] for one in found),
            "refusals": dict(refusals),
            "lasted_s": sorted(lasted for one in found for lasted in one["lasted_s"]),
        }

    def _stage(self, lines: list[dict], pace: dict) -> Stage:
        pace = {**pace, "at_ns": time.monotonic_ns() + AHEAD_NS}
        found = self._tell([{**line, "pace": pace} for line in lines])
        faults: Counter[str] = Counter()
        for one in found:
            faults.update(one["faults"])
        return Stage(
            {name: [time for one in found for time in one[name]] for name in COLUMNS},
            dict(faults),
            sum(one["most_at_once"] for one in found),
            max(one["seconds"] for one in found),
            sum(one["generator_cpu_seconds"] for one in found),
        )

    def _tell(self, lines: list[dict]) -> list[dict]:
        told = zip(self._generators, map(json.dumps, lines), strict=True)
        return list(self._pool.map(lambda pair: pair[0].measure(pair[1]), told))

    def close(self) -> None:
        """Ends the threads; one that waits for its process ends with that."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def holders(
    generator: Path,
    to: list[str],
    *,
    connections: int,
    most: int,
    cpus: list[int],
    page: tuple[str, Path] = ("/static/4k.txt", PAGE),
    manner: str = "idle",
    least: int = 1,
) -> Iterator[Holders]:
    """Processes for so many connections, none with more than `most`; `least` of them."""
    count = max(least, -(-connections // most))
    options = {"page": page[0], "file": page[1], "manner": manner}
    if sources := _sources(connections, len(to)):
        options["from"] = ",".join(sources)
    with contextlib.ExitStack() as parts:
        found = []
        for index in range(count):
            # Each begins with another server, so that all have as many.
            first = index % len(to)
            addresses = ",".join(to[first:] + to[:first])
            one = Generator(generator, Place(cpus), "hold", addresses, **options)
            found.append(parts.enter_context(one))
        told = Holders(found)
        parts.callback(told.close)
        yield told


def _sources(connections: int, servers: int) -> list[str]:
    """Addresses to come from: more than one where it has too few ports for a server's share."""
    count = -(-connections // servers // PORTS)
    return [f"127.0.0.{number}" for number in range(2, 2 + count)] if count > 1 else []
