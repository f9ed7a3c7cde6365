"""What each row of the benchmark measures of one server in one round."""

import time
from dataclasses import dataclass

from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.measurement import (
    CONNECTIONS,
    SLOW_MS,
    SLOW_SHARE,
    Work,
    cpu_of,
)
from loadtests.bench.experiment.servers import CORELANE, TRAINED, Server, running, takes

IDLE_CONNECTIONS = 10_000
FEW_MS = 0.2
FEW = (8, 16)
PLACEMENTS = ("hashed", "shared", "least-loaded")
LOAD_ONE = 1 / 3
LOAD_TWO = 0.6

_PEERS = ["ntex", "actix-web", "axum", "hyper"]

Sample = dict


@dataclass(frozen=True)
class Bench:
    """What every row needs: the programs, the two CPUs, and how long to measure."""

    programs: Programs
    cpus: tuple[int, int]
    seconds: dict[str, float]
    work: Work | None = None

    def one_cpu(self, first: bool = False) -> tuple[list[int], Place]:
        """The server's CPU, and the generator on the other."""
        return [self.cpus[0]], Place([self.cpus[1]], first)

    def both_cpus(self) -> tuple[list[int], Place]:
        """The server has both CPUs; the generator takes what little it needs first."""
        return list(self.cpus), Place(list(self.cpus), first=True)


def servers(row: str, bench: Bench) -> list[Server]:
    """Those that a row compares."""
    ours = [CORELANE, TRAINED] if bench.programs.trained else [CORELANE]
    if row == "cpu":
        names = ["floor", "may_minihttp", "nginx", "hyper", *ours, "actix-web", "ntex", "axum"]
        return [Server(name) for name in names]
    if row == "mixed-one":
        return [Server(name) for name in (*ours, *_PEERS)]
    if row == "memory":
        return [Server(name) for name in ("nginx", CORELANE, *_PEERS)]
    known = [placement for placement in PLACEMENTS if takes(bench.programs, placement)]
    return [*(Server(CORELANE, 2, placement) for placement in known), Server("axum", 2)]


def cpu_row(bench: Bench, server: Server, _round: int) -> Sample:
    """CPU time per `/hello`."""
    cpus, place = bench.one_cpu()
    return _closed(bench, server, cpus, place, seconds=bench.seconds["cpu"])


def few_row(bench: Bench, server: Server, _round: int) -> Sample:
    """Throughput of few connections, and its spread over lanes or threads."""
    cpus, place = bench.both_cpus()
    ops = bench.work.ops(FEW_MS)
    return {
        str(count): _closed(
            bench, server, cpus, place, seconds=bench.seconds["few"], connections=count, ops=ops
        )
        for count in FEW
    }


def mixed_one_row(bench: Bench, server: Server, number: int) -> Sample:
    """Latencies of a mixed load on one CPU."""
    cpus, place = bench.one_cpu(first=True)
    rate = LOAD_ONE * bench.work.saturation()
    return _mixed(bench, server, cpus, place, rate, bench.seconds["mixed-one"], number)


def mixed_two_row(bench: Bench, server: Server, number: int) -> Sample:
    """Latencies of a mixed load on two CPUs."""
    cpus, place = bench.both_cpus()
    rate = LOAD_TWO * 2 * bench.work.saturation()
    return _mixed(bench, server, cpus, place, rate, bench.seconds["mixed-two"], number)


def memory_row(bench: Bench, server: Server, _round: int) -> Sample:
    """Resident memory of an idle connection."""
    cpus, place = bench.one_cpu()
    with running(server, bench.programs, cpus) as process:
        options = {"connections": IDLE_CONNECTIONS}
        program = bench.programs.generator
        with Generator(program, place, "idle", process.address, **options) as load:
            before = process.resident_kib()
            result = load.measure()
            # Memory that goes back to the system does so within this time, or not at all.
            time.sleep(bench.seconds["memory"])
            kib = process.resident_kib() - before
    opened = IDLE_CONNECTIONS - 1
    return {**result, "kib_per_connection": kib / opened, "kib_before": before}


ROWS = {
    "cpu": cpu_row,
    "mixed-one": mixed_one_row,
    "mixed-two": mixed_two_row,
    "few": few_row,
    "memory": memory_row,
}
"""What measures each row, in the order of the report."""


def _closed(
    bench: Bench,
    server: Server,
    cpus: list[int],
    place: Place,
    *,
    seconds: float,
    connections: int = CONNECTIONS,
    ops: int | None = None,
) -> Sample:
    options = {"connections": connections, "seconds": seconds, "warm_up": min(1.0, seconds / 2)}
    if ops is not None:
        options["ops"] = ops
    with (
        running(server, bench.programs, cpus) as process,
        Generator(bench.programs.generator, place, "closed", process.address, **options) as load,
    ):
        threads = process.thread_seconds()
        used, result = cpu_of(process, load)
        by_thread = {
            thread: after - threads.get(thread, 0.0)
            for thread, after in process.thread_seconds().items()
        }
    requests = result["requests"]
    return {
        **result,
        "cpu_us": used / requests * 1e6,
        "cpu_us_by_threads": sum(by_thread.values()) / requests * 1e6,
        "generator_us": result["generator_cpu_seconds"] / requests * 1e6,
        "busy": used / result["seconds"] / len(cpus),
        "thread_shares": _shares(by_thread.values()),
        "lane_shares": _shares(result["lanes"].values()),
    }


def _mixed(
    bench: Bench,
    server: Server,
    cpus: list[int],
    place: Place,
    rate: float,
    seconds: float,
    seed: int,
) -> Sample:
    options = {
        "connections": CONNECTIONS,
        "ops": bench.work.ops(SLOW_MS),
        "rate": round(rate, 1),
        "seconds": seconds,
        "seed": seed,
        "warm_up": min(2.0, seconds / 2),
        "work_share": SLOW_SHARE,
    }
    with (
        running(server, bench.programs, cpus) as process,
        Generator(bench.programs.generator, place, "open", process.address, **options) as load,
    ):
        used, result = cpu_of(process, load)
    return {
        **result,
        "busy": used / result["seconds"] / len(cpus),
        "lane_shares": _shares(result["lanes"].values()),
        "rate": rate,
    }


def _shares(amounts: object) -> list[float]:
    """The share of each in the sum, the greatest first; those that did next to nothing left out."""
    found = sorted(amounts, reverse=True)
    total = sum(found)
    return [round(amount / total, 4) for amount in found if amount > 0.005 * total]
