"""10,000 connections at once with ab, each with one request for a file: the published C10k test."""

import csv
import tempfile
from collections.abc import Iterator
from math import ceil
from pathlib import Path

from loadtests.bench import ab
from loadtests.bench.experiment.plan import Row
from loadtests.bench.field.contender import FILE_10K
from loadtests.bench.field.running import Running, check
from loadtests.bench.field.stand import FieldStand
from loadtests.bench.field.workloads import REQUESTS
from loadtests.bench.networks import counters
from tools import resolve

EACH = 1.3
"""Requests for each connection: 13,000 for 10,000."""

LONGEST = 30
"""Seconds of one run; what is not answered then has failed."""

WARM_UP = 8.0
"""Longest load before it, for those whose code is compiled while it runs."""

PERCENTS = {"p50": 50.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
FINE = 99.9
"""A percent that ab does not tell itself."""

MOST_DROPPED = 0.01
"""Of a run's requests: with more handshakes dropped, latencies are of the few that got in."""

PAGE = REQUESTS[FILE_10K]

PUBLISHED = {
    "C10k.jl, published": {"p50": 106, "p99": 6681, "max": 6704, "rate": 1912, "failed": 0},
    "Apache, published": {"p50": 89, "p99": 1085, "max": 21092, "rate": 614, "failed": 151},
    "http-server, published": {"p50": 610, "p99": 1952, "max": 2059, "rate": 4084, "failed": 0},
}
"""Figures of C10k.jl's own test, on its author's machine: `ab -n 13000 -c 10000` of a page of 10,831 bytes."""


def measure(stand: FieldStand, process: Running, _round: int) -> Iterator[Row]:
    """One run of ab. A reply that is not the file is a ToolError: ab compares lengths only."""
    program = resolve.ensure(["ab"])["ab"]
    stand.warm_up(process, WARM_UP)
    check(process, PAGE)
    before = dropped()
    row = _ab(stand, process, program)
    row["dropped"] = dropped() - before
    check(process, PAGE)
    yield row


def dropped() -> int:
    """Handshakes that the kernel dropped because an accept queue was full. Each is repeated after a
    second (RFC 6298 section 2.1), when ab has its replies from others. So ab counts none of these
    connections, and the others waited behind fewer."""
    return counters()["ListenDrops"]


def _ab(stand: FieldStand, process: Running, program: Path) -> Row:
    at_once = stand.plan.options.connections
    requests = round(EACH * at_once)
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        found = ab.run(
            program,
            f"http://{process.address}{PAGE.target}",
            requests=requests,
            concurrency=at_once,
            keep_alive=False,
            before=stand.place(process).argv(),
            # -r: a connection that breaks counts as failed, and does not end the run.
            more=("-r", "-t", str(LONGEST), "-g", file.name),
        )
        times = {float(percent): ms for percent, ms in found.percentiles.items()}
        # In whole milliseconds, unlike those around it.
        times[FINE] = min(max(_fine(Path(file.name)), times[99]), times[100])
    # A rejection is of another length than the first reply, so ab counts it twice.
    failed = max(found.failed, found.non_2xx) + found.write_errors
    return {
        "requests": requests,
        "failed": failed + requests - found.complete,
        "requests_per_second": found.requests_per_second,
        "latency_ms": {name: times[percent] for name, percent in PERCENTS.items()},
    }


def _fine(file: Path) -> float:
    """One more percentile, from the milliseconds of each request (-g)."""
    with file.open(newline="") as rows:
        times = sorted(float(row["ttime"]) for row in csv.DictReader(rows, delimiter="\t"))
    return times[ceil(FINE / 100 * len(times)) - 1]
