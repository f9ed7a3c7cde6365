"""The pool without sockets: one thing changes at a time, the length of the queue or what it holds."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tools.errors import ToolError

LENGTHS = (1, 1_000, 100_000)
"""Requests that wait all the time: nobody, the published 1,000 connections, and a hundred times that."""

BYTES = (0, 4_096)
"""What each of them holds: its descriptor alone, as in the original, or a page of memory too."""

COUNT = 200_000
"""Requests of a run, so many that the whole queue goes round twice."""

D1, LL = "32768,8,64", "1048576,16,64"
"""Size, ways and line of the caches that cachegrind has. A first level as most x86-64 have it; the last
level only as large as a core's own second one, so that whatever leaves the core's own caches counts as a miss."""

LINE_NS = 100.0
"""A generous price of a miss of the last level: a read from memory."""


@dataclass(frozen=True)
class Queue:
    """One setting."""

    length: int
    bytes: int = 0
    threads: int = 1
    ops: int = 0
    requests: int = COUNT

    @property
    def name(self) -> str:
        """Its name in the record."""
        text = f"{self.length} waiting, {self.bytes} B each"
        return f"{text}, {self.threads} threads" if self.ops else text

    def argv(self, pool: Path) -> list[str]:
        """How it is run."""
        argv = [str(pool), "offline"]
        for name, value in asdict(self).items():
            argv += [f"--{name}", str(value)]
        return argv


def queues(lengths: Sequence[int], requests: int) -> list[Queue]:
    """The settings of one thread."""
    return [Queue(length, held, requests=requests) for held in BYTES for length in lengths]


THREADS = (1, 2, 4, 16)
COMPUTING = 100_000
"""Iterations where the number of threads changes: about 0.1 ms."""

COMPUTING_LESS = 80
"""So many times fewer requests then."""


def computing(lengths: Sequence[int], requests: int) -> list[Queue]:
    """The settings of many threads; the shortest queue has a request for each of them."""
    return [
        Queue(max(length, *THREADS), threads=threads, ops=COMPUTING, requests=requests)
        for length in lengths
        for threads in THREADS
    ]


def timed(pool: Path, queue: Queue) -> dict:
    """One run, in time: CPU and wall clock of a request."""
    found = json.loads(_run(queue.argv(pool)))
    return {
        "cpu_ns": found["cpu_seconds"] / found["requests"] * 1e9,
        "wall_ns": found["seconds"] / found["requests"] * 1e9,
    }


def counted(valgrind: Path, pool: Path, queue: Queue) -> dict:
    """Reads, writes and misses of a request by cachegrind: what twice as many requests have more, so
    that start and filling count in none."""
    half = replace(queue, requests=queue.requests // 2)
    with ThreadPoolExecutor(2) as both:
        one, two = both.map(lambda each: _cachegrind(valgrind, pool, each), (half, queue))
    events = {name: (two[name] - one[name]) / half.requests for name in two}
    return {
        "instructions": events["Ir"],
        "references": events["Dr"] + events["Dw"],
        "d1_misses": events["D1mr"] + events["D1mw"],
        "ll_misses": events["DLmr"] + events["DLmw"],
    }


def _cachegrind(valgrind: Path, pool: Path, queue: Queue) -> dict[str, int]:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        file = Path(name) / "cachegrind"
        argv = [str(valgrind), "--tool=cachegrind", "--cache-sim=yes", f"--D1={D1}", f"--I1={D1}"]
        argv += [f"--LL={LL}", f"--cachegrind-out-file={file}", *queue.argv(pool)]
        _run(argv)
        lines = dict(line.split(":", 1) for line in file.read_text().splitlines() if ": " in line)
    return dict(zip(lines["events"].split(), map(int, lines["summary"].split()), strict=True))


def _run(argv: list[str]) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"{' '.join(argv)}: {result.stderr.strip()[-500:]}")
    return result.stdout
