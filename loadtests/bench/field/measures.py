"""What is measured of a contender that runs, part by part."""

import time
from collections.abc import Callable, Iterator, Mapping

from loadtests.bench.connections.clients import holders
from loadtests.bench.experiment.generator import (
    CONNECTIONS,
    Generator,
    cpu_of,
    measured,
)
from loadtests.bench.experiment.plan import Row
from loadtests.bench.field import contender as parts
from loadtests.bench.field import mixes, scaling
from loadtests.bench.field.contender import REQUESTS, Workload, first_of
from loadtests.bench.field.stand import FieldStand, Running, check, settled

CLOSED, OPEN = 0.8, 1.3
"""Seconds of the loops."""

OPEN_WARM_UP = 0.2
"""Seconds of an open loop before it is measured: the code is warm, the connections are new."""

SETTLING = 6.0
"""Longest that a measurement is made again because code was compiled meanwhile."""

IDLE = 0.5
"""Waited for memory that goes back to the system."""

CORES_OPS = 200_000
"""Iterations of `/work` where CPUs are counted: some 0.3 ms, so that the load generator, which shares them,
takes next to nothing."""

GROWING = (1, 8, 64, 512, 4096, 10_000)
GROWING_QUICK = (1, 64, 1024)

PERCENTILES = {"p50": "50", "p99": "99", "p999": "99.9", "max": "100"}

Part = Callable[[FieldStand, Running, int], Iterator[Row]]


def requests(workload: Workload) -> Part:
    """CPU time and throughput in a closed loop, then latencies in an open one."""

    def measure(stand: FieldStand, process: Running, _round: int) -> Iterator[Row]:
        check(process, workload)
        options = workload.options(stand.folder)
        # The generator never sleeps, or who is slower than it would pay for waking it.
        yield {"loop": "closed", **_closed(stand, process, CLOSED, spin=True, **options)}
        if workload.ops is not None:
            options = {**options, "work_share": 1.0}
        row = _open(stand, process, OPEN, OPEN_WARM_UP, rate=workload.rate, **options)
        yield {"loop": "open", **row, "latency_ms": _latency(row, "all")}

    return measure


def cores(stand: FieldStand, process: Running, _round: int) -> Iterator[Row]:
    """Throughput where computing is all, and what a request costs where it is nearly nothing."""
    cpus = str(len(process.cpus))
    yield {"cpus": cpus, "of": "hello", **_closed(stand, process, CLOSED)}
    first = len(process.cpus) > 1
    yield {"cpus": cpus, "of": "work", **_closed(stand, process, CLOSED, first, ops=CORES_OPS)}


def connections(stand: FieldStand, process: Running, _round: int) -> Iterator[Row]:
    """More and more connections, all of which ask: memory seldom goes back, so never fewer."""
    before = process.resident_kib()
    for count in GROWING_QUICK if stand.plan.quick else GROWING:
        options = {"connections": count, "seconds": stand.plan.seconds(CLOSED)}
        options["warm_up"] = stand.plan.seconds(process.contender.warm_up, 0.1)
        with Generator(
            stand.generator, stand.place(process), "closed", process.address, **options
        ) as load:
            used, row = cpu_of(process, load)
            resident = process.resident_kib()
        cpu_us = used / row["requests"] * 1e6
        yield {"of": str(count), **row, "cpu_us": cpu_us, "memory_kib": resident - before}


def idle(stand: FieldStand, process: Running, _round: int) -> Iterator[Row]:
    """The start, the memory of a server without load, and of many silent connections."""
    count = stand.plan.options.connections
    request = first_of(process.contender).options(stand.folder)
    with holders(stand.generator, [process.address], stand.place(process), **request) as held:
        held.fill(1)
        before = process.resident_kib()
        held.fill(count - 1)
        # Memory that goes back to the system does so within this time, or not at all.
        time.sleep(stand.plan.seconds(IDLE, 0.1))
        growth = process.resident_kib() - before
    memory = {"resident_kib": before, "kib_per_connection": growth / max(1, count - 1)}
    yield {"requests": count, "wrong": 0, "start_ms": process.start_ms, **memory}


def _closed(
    stand: FieldStand, process: Running, seconds: float, first: bool = False, **options: object
) -> Row:
    """Each connection asks again as soon as it is answered."""
    options = {"connections": CONNECTIONS, **options}
    warm_up = stand.plan.seconds(process.contender.warm_up, 0.1)

    def measure() -> Row:
        return measured(
            process,
            stand.generator,
            stand.place(process, first),
            "closed",
            seconds=stand.plan.seconds(seconds),
            warm_up=warm_up,
            **options,
        )

    row = settled(process, stand.plan.seconds(SETTLING), measure)
    right = (row["requests"] - row["wrong"]) / row["seconds"]
    return {**row, "requests_per_second": right, "busy": row["busy"] / len(process.cpus)}


def _open(
    stand: FieldStand, process: Running, seconds: float, warm_up: float, **options: object
) -> Row:
    """Requests start when they are due: the latency of a late one counts from then
    (coordinated omission)."""
    row = measured(
        process,
        stand.generator,
        stand.place(process, first=True),
        "open",
        seconds=stand.plan.seconds(seconds),
        warm_up=warm_up,
        **options,
    )
    return {**row, "rate": options["rate"]}


def _latency(row: Row, kind: str) -> Mapping[str, float]:
    """Milliseconds by percentile; nothing if no reply was right."""
    found = row["latency_us"].get(kind)
    return {name: found[key] / 1e3 for name, key in PERCENTILES.items()} if found else {}


SHARED: dict[str, Part] = {
    **{name: requests(workload) for name, workload in REQUESTS.items()},
    parts.MIXED: mixes.measure,
    parts.CORES: cores,
}
"""Measured one after the other of a server on one CPU that runs and is warm."""

ALONE: dict[str, Part] = {
    parts.IDLE: idle,
    parts.C10K: scaling.measure,
    parts.CONNECTIONS: connections,
}
"""Each with a start of its own."""

PAIRED: dict[str, Part] = {parts.CORES: cores}
"""Of a server with two CPUs, which it shares with the generator."""
