"""One scenario for one shape of the fleet: all policies at the same time, load after load."""

import time
from collections.abc import Iterable

from loadtests.bench.balancing.scenarios import (
    LAG_MS,
    LOST_MS,
    ONLY,
    REFERENCE,
    SLO_MS,
    SLOW_SHARE,
    TRIES,
    WARM_UP,
    Scenario,
    answers,
    objective,
    percentile,
    rate,
    recovery,
)
from loadtests.bench.balancing.stack import Shape, Stack

SETTLE = 3.0
"""Seconds of moderate load before a scenario, in which weights forget the one before."""

SETTLE_LOAD = 40.0


def scenario(stacks: dict[str, Stack], what: Scenario, shape: Shape, seed: int) -> list[dict]:
    """Its cells: one for each policy and load."""
    stacks = {
        name: stack for name, stack in stacks.items() if what.name in ONLY.get(name, (what.name,))
    }
    for stack in stacks.values():
        stack.tell_all(f"times {what.service_ms[0]} {what.service_ms[1]}")
        stack.tell(f"speed {what.speed}")
    if any(event.line == "start" for event in what.events):
        for stack in stacks.values():
            stack.tell("stop")
        for stack in stacks.values():
            stack.wait_until_healthy(shape.replicas - 1)
    _together(stacks, what, shape, SETTLE_LOAD, SETTLE, seed)
    cells = []
    climbing = set(stacks)
    for load in what.ladder or [what.load]:
        going = {
            name: stack
            for name, stack in stacks.items()
            if not what.ladder or name in climbing or load == REFERENCE
        }
        if not going:
            continue
        for name, cell in _undisturbed(going, what, shape, load, seed).items():
            cells.append({"policy": name, **cell})
            if objective(cell) > SLO_MS:
                climbing.discard(name)
    for stack in stacks.values():
        stack.tell("speed 1")
    return cells


def _undisturbed(
    stacks: dict[str, Stack], what: Scenario, shape: Shape, load: float, seed: int
) -> dict[str, dict]:
    """The cells of a step, which is taken again where the machine was busy with something else."""
    found: dict[str, dict] = {}
    for number in range(TRIES if what.ladder else 1):
        found = _cells(stacks, what, shape, load, seed + 100 * number)
        if max(cell["lag_p99"] for cell in found.values()) <= LAG_MS:
            break
    return found


def _cells(
    stacks: dict[str, Stack], what: Scenario, shape: Shape, load: float, seed: int
) -> dict[str, dict]:
    before = {name: stack.gateway_seconds() for name, stack in stacks.items()}
    reports = _together(stacks, what, shape, load, WARM_UP + what.seconds, seed, what.events)
    return {
        name: _cell(report, what, load, stacks[name].gateway_seconds() - before[name])
        for name, report in reports.items()
    }


def _together(
    stacks: dict[str, Stack],
    what: Scenario,
    shape: Shape,
    load: float,
    seconds: float,
    seed: int,
    events: Iterable = (),
) -> dict[str, dict]:
    """The same arrivals for every policy at the same time; their reports."""
    begun = time.monotonic()
    for stack in stacks.values():
        stack.begin(
            rate=rate(what, load, shape.replicas),
            seconds=seconds,
            work_share=SLOW_SHARE if what.mixed else 0.0,
            seed=1000 * seed + int(load),
        )
    for event in events:
        time.sleep(max(0.0, begun + event.at - time.monotonic()))
        for stack in stacks.values():
            stack.tell(event.line)
    return {name: stack.end() for name, stack in stacks.items()}


def _cell(report: dict, what: Scenario, load: float, gateway_seconds: float) -> dict:
    found = answers(report)
    counted = [each for each in found if each[0] >= WARM_UP * 1000]
    times = [took if right else LOST_MS for _, took, _, right in counted]
    fast = [took if right else LOST_MS for _, took, slow, right in counted if not slow]
    until = WARM_UP + what.seconds
    return {
        "scenario": what.name,
        "mixed": what.mixed,
        "load": load,
        "requests": report["requests"],
        "p50": percentile(times, 0.50),
        "p99": percentile(times, 0.99),
        "p99_fast": percentile(fast, 0.99),
        "wrong": report["wrong"],
        "faults": report["faults"],
        "recovery": recovery(found, what.over, until) if what.over else None,
        "gateway_us": gateway_seconds / report["requests"] * 1e6,
        "lag_p99": report["lag_us"]["99"] / 1000,
    }
