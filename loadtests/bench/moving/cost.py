"""What parking and waking costs, and what a move costs: the CPU time of the lanes, as differences."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

from loadtests.bench.experiment.generator import Generator
from loadtests.bench.moving import pressure
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
AWAKE, PARKS, MOVING = (arm.name for arm in ARMS)

SPREADS = {"in one moment": 0.0, "within 0.1 s": 0.1}
"""Seconds over which the requests of a cycle are spread: lanes that are busy with them have not to be woken."""

NAMES = [f"{spread}: {arm.name}" for spread in SPREADS for arm in ARMS]

REST = 0.2
"""Seconds between a request and the next: park_after and the sweeps that follow it."""


def measured(bench: Bench) -> Iterator[tuple[str, int, Sample]]:
    """Name of the arm, round, and what was seen. All servers run throughout; one is asked at a time."""
    count = bench.size.resting
    with ExitStack() as stack:
        halls = {}
        for arm in ARMS:
            replica = Replica(arm, more=pressure.FLAGS)
            server = stack.enter_context(serving(replica, bench.programs, list(bench.cpus)))
            pressure.prepare(server, _dear(bench))
            hall = stack.enter_context(bench.generator("hold", server.address, first=False))
            hall.measure(json.dumps({"do": "open", "connections": count, "ask": True}))
            halls[arm] = server, hall
        for number in range(1, bench.size.rounds + 1):
            for spread, seconds in SPREADS.items():
                for arm in in_turn(ARMS, number):
                    sample = _cycles(bench, arm, seconds, *halls[arm])
                    yield f"{spread}: {arm.name}", number, sample


def _cycles(bench: Bench, arm: Arm, spread: float, server: Server, hall: Generator) -> Sample:
    """So many times: all connections ask while one lane is expected to have more to do, and rest again.

    It is the other one each time, and those who may move come back from there.
    """
    count, cycles = bench.size.resting, bench.size.cycles
    parked = count if arm.parks else 0
    _rest(server, parked)
    before, wrong, seconds = server.look(), 0, 0.0
    for cycle in range(cycles):
        with pressure.on_lane(server, cycle % 2, _dear(bench)):
            asked = hall.measure(json.dumps({"do": "ask", "pace": {"seconds": spread}}))
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


def _dear(bench: Bench) -> int:
    return bench.work.ops(pressure.EXPECTED_MS)


def _rest(server: Server, parked: int) -> None:
    """Waits until so many are parked. At first without a look: metrics are the admin thread's work, but
    it may run where a lane does."""
    time.sleep(REST)
    server.wait_for_parked(parked)


def of_parking(results: dict[str, list[Sample]], spread: str) -> list[float]:
    """Microseconds of a park and a wake, by round."""
    pairs = zip(results[f"{spread}: {PARKS}"], results[f"{spread}: {AWAKE}"], strict=True)
    return [
        (mine["cpu_us"] - base["cpu_us"]) * mine["requests"] / mine["parkings"]
        for mine, base in pairs
    ]


def of_moving(results: dict[str, list[Sample]], spread: str) -> list[float]:
    """Microseconds of a move, by round, of those in which something moved."""
    pairs = zip(results[f"{spread}: {MOVING}"], results[f"{spread}: {PARKS}"], strict=True)
    return [
        (mine["cpu_us"] - base["cpu_us"]) * mine["requests"] / mine["moves"]
        for mine, base in pairs
        if mine["moves"]
    ]
