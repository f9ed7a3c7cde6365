"""Load generator processes that hold connections or send live requests."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.record import nearest
from tools.errors import ToolError

COLUMNS = ("due_ms", "begun_ms", "connected_ms", "answered_ms")
PERCENTILES = {"p50": 50, "p99": 99, "max": 100}

AHEAD_NS = 50_000_000
"""Lead time for every process to read its line before they all start."""

WINDOW = 64
"""Connections opened concurrently: enough to saturate accept without a thundering herd."""


@dataclass(frozen=True)
class Stage:
    """Progress of a set of connections: each column has an entry per connection, in milliseconds
    since the start.
    """

    columns: dict[str, list[float | None]]
    faults: dict[str, int]
    most_at_once: int
    seconds: float
    cpu_seconds: float

    @property
    def count(self) -> int:
        return len(self.columns["due_ms"])

    @property
    def failed(self) -> int:
        """Connections that did not end as expected."""
        return sum(self.faults.values())

    def times(self, end: str, begin: str = "begun_ms") -> list[float]:
        pairs = zip(self.columns[end], self.columns[begin], strict=True)
        return sorted(last - first for last, first in pairs if last is not None)

    def last(self, column: str) -> float:
        """Time at which the last connection reached the event, in seconds."""
        return max((at for at in self.columns[column] if at is not None), default=0.0) / 1e3


class Holders:
    def __init__(self, generators: Sequence[Generator]) -> None:
        self._generators = generators
        self._pool = ThreadPoolExecutor(max(1, len(generators)))

    def open(self, connections: int, *, seconds: float = 0.0, ask: bool = True, **pace) -> Stage:
        """Opens this many more connections in total, spread over this time, each with one request.

        Each process reads responses after it has started a `burst` of connections, or otherwise all
        that are due. At most a `window` of them is in progress at a time.
        """
        count = len(self._generators)
        shares = [connections // count + (index < connections % count) for index in range(count)]
        lines = [{"do": "open", "connections": share, "ask": ask} for share in shares]
        return self._stage(lines, {"seconds": seconds, **pace})

    def fill(self, connections: int) -> Stage:
        """Opens this many more connections as fast as the server accepts them; all must succeed."""
        stage = self.open(connections, window=WINDOW)
        if stage.failed:
            raise ToolError(
                f"{stage.failed:,} of {connections:,} connections failed: {stage.faults}"
            )
        return stage

    def ask(self, seconds: float = 0.0) -> Stage:
        return self._stage([{"do": "ask"} for _ in self._generators], {"seconds": seconds})

    def look(self) -> dict:
        found = self._tell([{"do": "look"} for _ in self._generators])
        refusals: Counter[str] = Counter()
        for one in found:
            refusals.update(one["refusals"])
        return {
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
            {name: [at for one in found for at in one[name]] for name in COLUMNS},
            dict(faults),
            sum(one["most_at_once"] for one in found),
            max(one["seconds"] for one in found),
            sum(one["generator_cpu_seconds"] for one in found),
        )

    def _tell(self, lines: list[dict]) -> list[dict]:
        told = zip(self._generators, map(json.dumps, lines), strict=True)
        return list(self._pool.map(lambda pair: pair[0].measure(pair[1]), told))

    def close(self) -> None:
        """Stops the threads; a thread that is waiting for its process stops when the process
        exits."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def holders(
    program: Path, to: Sequence[str], place: Place, processes: int = 1, **options: object
) -> Iterator[Holders]:
    """Starts this many processes, each on its own loopback address, because one address has too few
    ports.
    """
    with ExitStack() as parts:
        found = []
        for index in range(processes):
            # Each process starts with a different server, so that all servers get the same number
            # of connections.
            first = index % len(to)
            addresses = ",".join([*to[first:], *to[:first]])
            mine = {"from": f"127.0.{1 + index}.1", **options} if processes > 1 else options
            found.append(parts.enter_context(Generator(program, place, "hold", addresses, **mine)))
        told = Holders(found)
        parts.callback(told.close)
        yield told


class Live:
    """Live requests to all servers alternately in an open loop; lateness is measured from a
    request's due time.
    """

    def __init__(self, generator: Generator, rate: float) -> None:
        self._generator, self._rate, self._seed = generator, rate, 0

    def measure(self, seconds: float) -> dict:
        self.begin(seconds)
        return self.result()

    def begin(self, seconds: float) -> None:
        self._seed += 1
        turn = {"rate": self._rate, "seconds": seconds, "work_share": 0.0}
        self._generator.tell(json.dumps({**turn, "seed": self._seed}))

    def result(self) -> dict:
        found = self._generator.answer()
        samples = found.pop("samples")
        rows = zip(samples["latency_ms"], samples["right"], strict=True)
        return {**found, **quantiles([latency for latency, right in rows if right])}


@contextmanager
def live(
    program: Path, to: Sequence[str], cpu: int, rate: float, connections: int
) -> Iterator[Live]:
    """Live requests have priority on their CPU, because a late generator would look like a late
    response.
    """
    place = Place([cpu], first=True)
    with Generator(program, place, "turns", ",".join(to), connections=connections) as generator:
        yield Live(generator, rate)


def quantiles(times: Sequence[float]) -> dict[str, float]:
    """Nearest rank of each percentile; empty if there are no times."""
    return {name: nearest(times, percent) for name, percent in PERCENTILES.items() if times}
