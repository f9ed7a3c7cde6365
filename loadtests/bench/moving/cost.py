"""What parking and waking costs, and what a move costs: the CPU time of the lanes, as differences."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

from loadtests.bench.moving.bench import Bench, Sample, in_turn
from loadtests.bench.moving.replica import (
    MOVES,
    OFF,
    PARKED_ONLY,
    PARKINGS,
    SHORT_PARK,
    Arm,
    Replica,
    Server,
    serving,
)
from tools.errors import ToolError

ARMS = (
    Arm("stays awake", OFF),
    Arm("parks and wakes", OFF, SHORT_PARK),
    Arm("parks, wakes and moves", PARKED_ONLY, SHORT_PARK),
)
NAMES = AWAKE, PARKS, MOVING = [arm.name for arm in ARMS]

REST = 0.3
"""Seconds between a request and the next: park_after and the sweeps that follow it."""


def measured(bench: Bench) -> Iterator[tuple[str, int, Sample]]:
    """Name of the arm, round, and what was seen. All servers run throughout; one is asked at a time."""
    count = bench.size.resting
    with ExitStack() as stack:
        halls = {}
        for arm in ARMS:
            server = stack.enter_context(serving(Replica(arm), bench.programs, list(bench.cpus)))
            hall = stack.enter_context(bench.generator("hold", server.address, first=False))
            hall.measure(json.dumps({"do": "open", "connections": count, "ask": True}))
            halls[arm] = server, hall
        for number in range(1, bench.size.rounds + 1):
            for arm in in_turn(ARMS, number):
                yield arm.name, number, _cycles(bench, arm, *halls[arm])


def _cycles(bench: Bench, arm: Arm, server: Server, hall) -> Sample:
    """So many times: all connections ask in the same moment, and rest again."""
    count, cycles = bench.size.resting, bench.size.cycles
    parked = count if arm.parks else 0
    _rest(server, parked)
    before, wrong, seconds = server.look(), 0, 0.0
    for _ in range(cycles):
        asked = hall.measure(json.dumps({"do": "ask"}))
        wrong += count - sum(time is not None for time in asked["answered_ms"])
        seconds += asked["seconds"]
        _rest(server, parked)
    after = server.look()
    requests = count * cycles
    parkings = round(after.total(PARKINGS) - before.total(PARKINGS))
    if arm.parks and parkings < 0.9 * requests:
        raise ToolError(f"{arm.name}: {parkings} connections parked in {requests} rests")
    return {
        "requests": requests,
        "wrong": wrong,
        "cpu_us": (after.lanes_seconds - before.lanes_seconds) / requests * 1e6,
        "seconds": seconds,
        "parkings": parkings,
        "moves": round(after.total(MOVES) - before.total(MOVES)),
    }


def _rest(server: Server, parked: int) -> None:
    """Waits until so many are parked. At first without a look: metrics are the admin thread's work, but
    it may run where a lane does."""
    time.sleep(REST)
    server.wait_for_parked(parked)


def of_parking(record: dict[str, list[Sample]]) -> list[float]:
    """Microseconds of a park and a wake, by round."""
    pairs = zip(record[PARKS], record[AWAKE], strict=True)
    return [
        (mine["cpu_us"] - base["cpu_us"]) * mine["requests"] / mine["parkings"]
        for mine, base in pairs
    ]


def of_moving(record: dict[str, list[Sample]]) -> list[float]:
    """Microseconds of a move, by round, of those in which something moved."""
    pairs = zip(record[MOVING], record[PARKS], strict=True)
    return [
        (mine["cpu_us"] - base["cpu_us"]) * mine["requests"] / mine["moves"]
        for mine, base in pairs
        if mine["moves"]
    ]
