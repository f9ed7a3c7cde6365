"""What is measured of one contender that runs: its CPU time, latencies and memory."""

import time
from collections.abc import Mapping

from loadtests.bench.experiment.generator import Generator
from loadtests.bench.experiment.measurement import cpu_of
from loadtests.bench.field import warm
from loadtests.bench.field.bench import CONNECTIONS, IDLE_CONNECTIONS, Bench, Seconds
from loadtests.bench.field.contender import Contender
from loadtests.bench.field.running import Running, check
from loadtests.bench.field.workloads import REQUESTS, Workload, first_of

SLOW_MS = 7.0
SLOW_SHARE = 0.1
MIXED_LOAD = 1 / 3
"""Of what keeps one CPU busy with the slow requests alone."""

OPEN_WARM_UP = 0.2
"""Seconds of an open loop before it is measured: the code is warm, the connections are new."""

PERCENTILES = {"p50": "50", "p99": "99", "p999": "99.9", "max": "100"}

Sample = dict


def warm_up(bench: Bench, process: Running, contender: Contender, share: float) -> None:
    """Load after the start, of each kind, for those whose code is compiled while it runs."""
    kinds = [one for name, one in REQUESTS.items() if name in contender.workloads]
    seconds = share * contender.warm_up_first / len(kinds)
    for workload in kinds if seconds else []:
        options = {"connections": CONNECTIONS, "seconds": 0.01, "warm_up": seconds}
        options |= workload.options(bench.folder)
        with Generator(bench.generator, bench.place(), "closed", process.address, **options):
            pass


def cell(
    bench: Bench, process: Running, contender: Contender, workload: Workload, seconds: Seconds
) -> Sample:
    """CPU time and throughput in a closed loop, then latencies in an open one."""
    check(process, workload)
    options = {"connections": CONNECTIONS, **workload.options(bench.folder)}
    return {
        "closed": closed(bench, process, contender, seconds, options),
        "open": open_loop(bench, process, workload, seconds.open, options),
    }


def closed(
    bench: Bench,
    process: Running,
    contender: Contender,
    seconds: Seconds,
    options: Mapping[str, object],
) -> Sample:
    """Each connection asks again as soon as it is answered: the server's CPU is busy. The generator
    has its CPU for itself and never sleeps, or who is slower than it would pay for waking it."""
    times = {"seconds": seconds.closed, "warm_up": seconds.warm_up * contender.warm_up}
    argv = (bench.generator, bench.place(), "closed", process.address)
    with Generator(*argv, **options, **times, spin=True) as load:
        used, result = warm.measured(
            process, contender, seconds.settling, lambda: cpu_of(process, load)
        )
    return counted(used, result)


def counted(used: float, result: Mapping) -> Sample:
    """What a closed loop tells."""
    requests, wrong = result["requests"], result["wrong"]
    return {
        "requests": requests,
        "wrong": wrong,
        "seconds": result["seconds"],
        "requests_per_second": (requests - wrong) / result["seconds"],
        "cpu_us": used / requests * 1e6,
        "busy": used / result["seconds"],
        "generator_us": result["generator_cpu_seconds"] / requests * 1e6,
        "others_cores": result["others_cores"] + result["stolen_cores"],
        **({"compiling": result["compiling"]} if "compiling" in result else {}),
    }


def open_loop(
    bench: Bench,
    process: Running,
    workload: Workload,
    seconds: float,
    options: Mapping[str, object],
) -> Sample:
    """Requests start when they are due: the latency of a late one counts from then
    (coordinated omission)."""
    times = {"seconds": seconds, "warm_up": OPEN_WARM_UP, "rate": workload.rate}
    if workload.ops is not None:
        times["work_share"] = 1.0
    place = bench.place(first=True)
    argv = (bench.generator, place, "open", process.address)
    with Generator(*argv, **options, **times, curve=True) as load:
        used, result = cpu_of(process, load)
    return {
        "rate": workload.rate,
        "requests": result["requests"],
        "wrong": result["wrong"],
        "seconds": result["seconds"],
        "latency_ms": latency(result["latency_us"].get("all")),
        "percentiles": [[percent, us / 1e3] for percent, us in result["curve"]],
        "ahead": process.ahead,
        "lag_us": result["lag_us"]["99"],
        "busy": used / result["seconds"],
        "others_cores": result["others_cores"] + result["stolen_cores"],
    }


def mixed(bench: Bench, process: Running, number: int, seconds: float) -> Sample:
    """Latencies of fast requests beside slow ones on one CPU, open loop."""
    rate = MIXED_LOAD * 1e3 / (SLOW_SHARE * SLOW_MS)
    options = {
        "connections": CONNECTIONS,
        "ops": bench.work.ops(SLOW_MS),
        "rate": round(rate, 1),
        "seconds": seconds,
        "seed": number,
        "warm_up": min(1.0, seconds / 4),
        "work_share": SLOW_SHARE,
    }
    place = bench.place(first=True)
    with Generator(bench.generator, place, "open", process.address, **options) as load:
        used, result = cpu_of(process, load)
    return {
        "rate": rate,
        "requests": result["requests"],
        "wrong": result["wrong"],
        "fast": latency(result["latency_us"].get("hello")),
        "slow": latency(result["latency_us"].get("work")),
        "lag_us": result["lag_us"]["99"],
        "busy": used / result["seconds"],
        "others_cores": result["others_cores"] + result["stolen_cores"],
    }


def idle(bench: Bench, process: Running, contender: Contender, seconds: float) -> Sample:
    """The start, the memory of a server that nobody asks, and of 10,000 silent connections."""
    options = {"connections": IDLE_CONNECTIONS, **first_of(contender).options(bench.folder)}
    place = bench.place()
    with Generator(bench.generator, place, "idle", process.address, **options) as load:
        before = process.resident_kib()
        result = load.measure()
        # Memory that goes back to the system does so within this time, or not at all.
        time.sleep(seconds)
        growth = process.resident_kib() - before
    return {
        "start_ms": process.start_ms,
        "resident_kib": before,
        "kib_per_connection": growth / (IDLE_CONNECTIONS - 1),
        "connections": IDLE_CONNECTIONS,
        "requests": result["requests"],
        "wrong": result["wrong"],
        "reopened": result["reopened"],
    }


def ops_per_ms(bench: Bench, process: Running) -> float:
    """Iterations of `/work` in a millisecond of the server's CPU."""
    ops = 1_000_000
    options = {"connections": 1, "ops": ops, "seconds": 0.5, "warm_up": 0.1}
    with Generator(bench.generator, bench.place(), "closed", process.address, **options) as load:
        used, result = cpu_of(process, load)
    return ops * result["requests"] / (used * 1e3)


def latency(found: Mapping[str, float] | None, of_a_ms: float = 1e3) -> dict[str, float] | None:
    """Milliseconds by percentile; nothing if no reply was right."""
    if not found or not found["count"]:
        return None
    return {name: found[percent] / of_a_ms for name, percent in PERCENTILES.items()}
