"""Connections that landed unevenly on two lanes."""

from collections.abc import Iterator
from dataclasses import dataclass

from loadtests.bench.experiment.measurement import cpu_of
from loadtests.bench.moving.bench import Bench, Sample, in_turn
from loadtests.bench.moving.replica import (
    ACTIVE,
    OFF,
    OUTCOMES,
    PLANS,
    Arm,
    Replica,
    moves,
    serving,
)

CONNECTIONS = 8
MANY = 64
"""Which keep both lanes busy wherever they are."""

RATE = 4000


@dataclass(frozen=True)
class Start:
    """Where the connections begin, and what the server may do about it."""

    arm: Arm
    seats: str
    """Lanes of the connections, in turn."""


@dataclass(frozen=True)
class Load:
    """What the connections do."""

    mode: str
    """Of the generator."""
    title: str
    connections: int
    starts: tuple[Start, ...]


STARTS = (
    Start(Arm("all on lane 0, off", OFF), "0"),
    Start(Arm("all on lane 0, active", ACTIVE), "0"),
    Start(Arm("on both lanes, off", OFF), "0,1"),
    Start(Arm("on both lanes, active", ACTIVE), "0,1"),
)
STUCK, MOVED, EVEN, EVEN_ACTIVE = (start.arm.name for start in STARTS)

UNEVEN = (
    Start(Arm("three quarters on lane 0, off", OFF), "0,0,0,1"),
    Start(Arm("three quarters on lane 0, active", ACTIVE), "0,0,0,1"),
    Start(Arm("on both lanes, off", OFF), "0,1"),
)
CROWDED, SPREAD, SPREAD_EVEN = (start.arm.name for start in UNEVEN)

LOADS = {
    "closed": Load("closed", f"{CONNECTIONS} connections, closed loop", CONNECTIONS, STARTS),
    "open": Load("open", f"{CONNECTIONS} connections, open loop", CONNECTIONS, STARTS),
    "many": Load("closed", f"{MANY} connections, closed loop", MANY, UNEVEN),
}
NAMES = [f"{name}: {start.arm.name}" for name, load in LOADS.items() for start in load.starts]


def measured(bench: Bench) -> Iterator[tuple[str, int, Sample]]:
    """Name of the arm with its load, round, and what was seen."""
    for number in range(1, bench.size.rounds + 1):
        for name, load in LOADS.items():
            if load.starts is UNEVEN and number > bench.size.few_rounds:
                continue
            for start in in_turn(load.starts, number):
                yield f"{name}: {start.arm.name}", number, sample(bench, load, start, number)


def sample(bench: Bench, load: Load, start: Start, number: int) -> Sample:
    """One load on a server of its own."""
    size = bench.size
    options = {"connections": load.connections, "ops": bench.ops, "seats": start.seats}
    options |= {"seconds": size.seconds, "warm_up": size.warm_up}
    if load.mode == "open":
        options |= {"rate": RATE, "work_share": 1, "seed": number}
    with serving(Replica(start.arm), bench.programs, list(bench.cpus)) as server:
        fresh = server.look()
        with bench.generator(load.mode, server.address, **options) as generator:
            warm = server.look()
            used, result = cpu_of(server.process, generator)
            done = server.look()
    lanes = sorted(result["lanes"].values(), reverse=True)
    return {
        **result,
        "busy_cores": used / result["seconds"],
        "hotter_share": lanes[0] / sum(lanes),
        "moves_before": moves(fresh, warm),
        "moves": moves(warm, done),
        "plans": {name: round(done.total(PLANS, f'"{name}"')) for name in OUTCOMES},
    }


def p(sample: Sample, percent: str) -> float:
    """A percentile of the work's latencies, in milliseconds."""
    return sample["latency_us"]["work"][percent] / 1e3
