"""Many connections that ask once in a while, and rest longer than it takes to be parked."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

from loadtests.bench.experiment.generator import Generator
from loadtests.bench.experiment.measurement import cpu_of
from loadtests.bench.moving.bench import Bench, Sample, in_turn
from loadtests.bench.moving.replica import (
    MOVES,
    OFF,
    PARKED_ONLY,
    PARKINGS,
    Arm,
    Replica,
    Server,
    serving,
)

RATE = 1000
FIRST_RATE = 10_000
"""Of the first request on each."""

PARK_AFTER = "1s"
ARMS = (
    Arm("stay awake", OFF),
    Arm("park", OFF, PARK_AFTER),
    Arm("park, parked-only", PARKED_ONLY, PARK_AFTER),
)
NAMES = AWAKE, PARKED, MOVING = [arm.name for arm in ARMS]


def measured(bench: Bench) -> Iterator[tuple[str, int, Sample]]:
    """Name of the arm, round, and what was seen. All are held open throughout; one is asked at a time."""
    with ExitStack() as stack:
        held = {}
        for arm in ARMS:
            server = stack.enter_context(serving(Replica(arm), bench.programs, list(bench.cpus)))
            before = server.process.resident_kib()
            connections = bench.size.many
            load = stack.enter_context(
                bench.generator("turns", server.address, connections=connections)
            )
            # Arrivals are by chance: with a tenth more, each of them is asked.
            load.measure(_turn(FIRST_RATE, 1.1 * connections / FIRST_RATE, 1))
            held[arm] = server, load, before
        for number in range(1, bench.size.rounds + 1):
            for arm in in_turn(ARMS, number):
                yield arm.name, number, _turns(bench, arm, number, *held[arm])


def _turns(
    bench: Bench, arm: Arm, number: int, server: Server, load: Generator, fresh_kib: int
) -> Sample:
    count = bench.size.many
    if arm.parks:
        server.wait_for_parked(count)
    resident = server.process.resident_kib() - fresh_kib
    before = server.look()
    used, result = cpu_of(server.process, load, part=_turn(RATE, bench.size.seconds, number))
    after = server.look()
    del result["samples"]
    lanes = after.lanes_seconds - before.lanes_seconds
    return {
        **result,
        "cpu_us": lanes / result["requests"] * 1e6,
        "process_cpu_us": used / result["requests"] * 1e6,
        "kib_per_connection": resident / count,
        "parkings": round(after.total(PARKINGS) - before.total(PARKINGS)),
        "moves": round(after.total(MOVES) - before.total(MOVES)),
    }


def _turn(rate: float, seconds: float, seed: int) -> str:
    return json.dumps({"rate": rate, "seconds": seconds, "work_share": 0, "seed": seed})
