"""Measures a running competitor, part by part."""

import csv
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from loadtests.bench import ab
from loadtests.bench.competitors import competitor as parts
from loadtests.bench.competitors import mixes
from loadtests.bench.competitors.competitor import FILE_10K, REQUESTS, Subject, Workload
from loadtests.bench.competitors.test_bed import CompetitorsBed, settled
from loadtests.bench.connections.clients import holders
from loadtests.bench.experiment.generator import CONNECTIONS, Generator, cpu_of
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.record import nearest
from loadtests.bench.experiment.servers import check
from loadtests.bench.networks import Kernel
from tools import resolve

CLOSED, OPEN = 0.8, 1.3

OPEN_WARM_UP = 0.2
"""Seconds of an open loop before its measurement: the code is warm, but the connections are new."""

SETTLING = 6.0
"""Maximum seconds for repeating a measurement that was disturbed by the JIT compiler."""

IDLE = 0.5

CORES_OPS = 200_000
"""Iterations of `/work` in the CPU count: about 0.3 ms, so that the load generator, which shares
the CPUs, takes almost nothing.
"""

GROWING = (1, 8, 64, 512, 4096, 10_000)
GROWING_QUICK = (1, 64, 1024)

Part = Callable[[CompetitorsBed, Subject, int], Iterator[Row]]


def requests(workload: Workload) -> Part:
    """CPU time and throughput in a closed loop, then latencies in an open loop."""

    def measure(bed: CompetitorsBed, subject: Subject, _round: int) -> Iterator[Row]:
        check(subject.process, workload.target, workload.body)
        options = workload.options(bed.folder)
        # The generator never sleeps; otherwise servers slower than the generator would pay for its
        # wake-ups.
        yield {"loop": "closed", **_closed(bed, subject, spin=True, **options)}
        if workload.ops is not None:
            options = {**options, "work_share": 1.0}
        options = {**options, "rate": workload.rate, "warm_up": bed.plan.seconds(OPEN_WARM_UP)}
        row = bed.load(subject.process, "open", seconds=bed.plan.seconds(OPEN), **options)
        yield {"loop": "open", **row, "latency_ms": mixes.latency(row, "all")}

    return measure


def cores(bed: CompetitorsBed, subject: Subject, _round: int) -> Iterator[Row]:
    """Throughput of requests that mostly compute, and the cost of a request that computes almost
    nothing.
    """
    cpus = str(len(subject.process.cpus))
    yield {"cpus": cpus, "of": "hello", **_closed(bed, subject)}
    first = len(subject.process.cpus) > 1
    yield {"cpus": cpus, "of": "work", **_closed(bed, subject, first, ops=CORES_OPS)}


def connections(bed: CompetitorsBed, subject: Subject, _round: int) -> Iterator[Row]:
    """Growing numbers of active connections. The number never falls, because servers rarely return
    memory to the system.
    """
    process = subject.process
    before = process.resident_kib()
    for count in GROWING_QUICK if bed.plan.quick else GROWING:
        options = {"connections": count, "seconds": bed.plan.seconds(CLOSED)}
        options["warm_up"] = bed.plan.seconds(subject.competitor.warm_up, 0.1)
        program, place = bed.programs.generator, bed.beside(subject)
        with Generator(program, place, "closed", process.address, **options) as load:
            used, row = cpu_of(process, load)
            kib = process.resident_kib() - before
        cpu_us = used / row["requests"] * 1e6
        yield {"of": str(count), **row, "cpu_us": cpu_us, "kib_each": kib / count}


def idle(bed: CompetitorsBed, subject: Subject, _round: int) -> Iterator[Row]:
    """The start, and the memory of a server without load and with many silent connections."""
    process, count = subject.process, bed.plan.options.connections
    target, body = parts.Placed(subject.competitor, Path()).probe
    file = bed.folder / "probe"
    file.write_bytes(body)
    probe = {"page": target, "file": file}
    with holders(bed.programs.generator, [process.address], bed.beside(subject), **probe) as held:
        held.fill(1)
        before = process.resident_kib()
        held.fill(count - 1)
        # Servers return memory to the system within this time, or never.
        time.sleep(bed.plan.seconds(IDLE, 0.1))
        growth = process.resident_kib() - before
    memory = {"resident_kib": before, "kib_per_connection": growth / max(1, count - 1)}
    yield {"requests": count, "wrong": 0, "start_ms": process.start_ms, **memory}


def _closed(bed: CompetitorsBed, subject: Subject, first: bool = False, **options: object) -> Row:
    """Closed loop: each connection sends its next request as soon as the response arrives."""
    process = subject.process
    options = {"connections": CONNECTIONS, "seconds": bed.plan.seconds(CLOSED), **options}
    options["warm_up"] = bed.plan.seconds(subject.competitor.warm_up, 0.1)

    def measure() -> Row:
        return bed.load(process, "closed", bed.beside(subject, first=first), **options)

    row = settled(subject, bed.plan.seconds(SETTLING), measure)
    right = (row["requests"] - row["wrong"]) / row["seconds"]
    return {**row, "requests_per_second": right, "busy": row["busy"] / len(process.cpus)}


EACH = 1.3
"""ab requests per connection: 13,000 for 10,000 connections."""

LONGEST = 30
"""Maximum seconds of one ab run; requests without a response by then count as failed."""

AB_WARM_UP = 8.0
"""Maximum seconds of load before ab, for servers that compile their code at run time."""

FINE = 99.9
"""A percentile that ab itself does not print."""


def c10k(bed: CompetitorsBed, subject: Subject, _round: int) -> Iterator[Row]:
    """Runs ab once. Raises a ToolError if a response is not the file, because ab compares only
    lengths.

    `dropped` counts handshakes that the kernel dropped because an accept queue was full. The client
    retries each after a second (RFC 6298 section 2.1), when ab has already received its responses
    on other connections. ab therefore counts none of these connections, and the other connections
    had fewer in front of them.
    """
    page, process = REQUESTS[FILE_10K], subject.process
    bed.warm_up(subject, AB_WARM_UP)
    check(process, page.target, page.body)
    kernel = Kernel()
    at_once = bed.plan.options.connections
    count = round(EACH * at_once)
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        found = ab.run(
            resolve.ensure(["ab"])["ab"],
            f"http://{process.address}{page.target}",
            requests=count,
            concurrency=at_once,
            before=bed.beside(subject).argv(),
            # -r counts a broken connection as failed instead of aborting the run.
            more=("-r", "-t", str(LONGEST), "-g", file.name),
        )
        times = {name: found.percentiles[at] for name, at in AB_QUANTILES.items()}
        # Unlike the other values, ab prints this one in whole milliseconds.
        times["p999"] = min(max(_fine(Path(file.name)), times["p99"]), times["max"])
    row = {
        "requests": count,
        "failed": found.wrong + count - found.complete,
        "requests_per_second": found.requests_per_second,
        "latency_ms": times,
        "dropped": kernel.counted()["ListenDrops"],
    }
    check(process, page.target, page.body)
    yield row


AB_QUANTILES: Mapping[str, str] = {"p50": "50", "p99": "99", "max": "100"}


def _fine(file: Path) -> float:
    with file.open(newline="") as rows:
        times = [float(row["ttime"]) for row in csv.DictReader(rows, delimiter="\t")]
    return nearest(times, FINE)


SHARED: dict[str, Part] = {
    **{name: requests(workload) for name, workload in REQUESTS.items()},
    parts.MIXED: mixes.measure,
    parts.CORES: cores,
}
"""Parts measured one at a time on a running, warm server with one CPU."""

ALONE: dict[str, Part] = {
    parts.IDLE: idle,
    parts.C10K: c10k,
    parts.CONNECTIONS: connections,
}

PAIRED: dict[str, Part] = {parts.CORES: cores}
"""Parts for a server with two CPUs, which the generator shares."""
