"""The ladder: ever more connections that wait, with live requests beside them; then all wake, and go."""

import json
import time
from dataclasses import dataclass
from statistics import median

from loadtests.bench import cpu
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.idle.arms import Arm, Programs
from loadtests.bench.idle.clients import clients, opened
from loadtests.bench.idle.memory import per_connection
from loadtests.bench.idle.replicas import (
    PARKED,
    WAKES,
    Replicas,
    Setting,
    certificate,
    replicas,
)
from loadtests.ladder.holders import Holders
from loadtests.ladder.network import kernel_kib
from tools import progress

LIVE = 4
"""Keep-alive connections of live requests to each replica."""


@dataclass(frozen=True)
class Climb:
    """How high, and how long it stays at each rung."""

    rungs: tuple[int, ...]
    rate: float
    """Live requests per second."""
    seconds: float
    waking: float
    """Connections woken per second at the top."""
    quiet: float
    """Seconds without a request, for what the wait itself costs."""
    park_after: str
    settle: float
    unit: int
    """Most connections of one process, for its limit of open files."""


class Live:
    """Live requests to all replicas in turn, open loop: a late one counts from when it was due."""

    def __init__(self, generator: Generator, rate: float) -> None:
        self._generator, self._rate, self._seed = generator, rate, 0

    def measure(self, seconds: float) -> dict:
        """Quantiles in milliseconds."""
        self.begin(seconds)
        return self.result()

    def begin(self, seconds: float) -> None:
        """Starts it, so that something else may go on beside it."""
        self._seed += 1
        turn = {"rate": self._rate, "seconds": seconds, "work_share": 0.0, "seed": self._seed}
        self._generator.tell(json.dumps(turn))

    def result(self) -> dict:
        """What came of it."""
        found = self._generator.answer()
        samples = found["samples"]
        rows = zip(samples["latency_ms"], samples["right"], strict=True)
        return {
            "requests": found["requests"],
            "wrong": found["wrong"],
            "reopened": found["reopened"],
            "generator_cpu_seconds": found["generator_cpu_seconds"],
            **quantiles([latency for latency, right in rows if right]),
        }


def quantiles(times: list[float]) -> dict[str, float]:
    """The nearest rank of each."""
    found = sorted(times) or [0.0]
    at = {name: found[min(len(found) - 1, int(len(found) * share))] for name, share in SHARES}
    return {**at, "max": found[-1]}


SHARES = (("p50", 0.5), ("p99", 0.99))


def climb(programs: Programs, arm: Arm, plan: Climb, cpus: tuple[int, int]) -> dict:
    """Everything that one arm shows."""
    top = plan.rungs[-1]
    count = -(-top // plan.unit)
    room = -(-top // count) + count
    with (
        certificate() as pem,
        replicas(programs, arm, count, Setting(room, plan.park_after, cpus[0], pem)) as servers,
        clients(programs, servers, count, cpus[1]) as held,
        Generator(
            programs.generator,
            Place([cpus[1]], first=True),
            "turns",
            ",".join(servers.to),
            connections=LIVE,
        ) as generator,
    ):
        live = Live(generator, plan.rate)
        live.measure(1.0)
        rungs = list(_rungs(plan, servers, held, live))
        woken = [_wake(plan, servers, held, None), _wake(plan, servers, held, live)]
        resident = servers.resident_kib()
        before = held.look()["open"]
        drain = servers.drain()
        return {
            "replicas": count,
            "rungs": rungs,
            "woken": woken,
            "resident_kib_after": resident,
            "drain": {**drain, "connections": before, "still_open": _left(held)},
        }


def _rungs(plan: Climb, servers: Replicas, held: Holders, live: Live):
    so_far, before, kernel = 0, servers.resident_kib(), kernel_kib()
    for connections in plan.rungs:
        seconds = 0.0
        if more := connections - so_far:
            seconds = opened(held, more).seconds
        so_far = connections
        servers.rest(connections)
        time.sleep(plan.settle)
        used, begun = servers.cpu_seconds(), time.monotonic()
        time.sleep(plan.quiet)
        quiet = (servers.cpu_seconds() - used) / (time.monotonic() - begun)
        beside = _beside(servers, live, plan.seconds)
        left = held.look()["open"] if connections else 0
        resident = servers.resident_kib()
        rung = {
            "connections": connections,
            "lost": connections - left,
            "parked": servers.sum_of(PARKED) if servers.arm.parks else 0,
            "seconds_to_open": seconds,
            "opened": more,
            "resident_kib": resident,
            "kib_per_connection": (resident - before) / max(1, connections),
            "kernel_kib": per_connection(kernel, kernel_kib(), max(1, connections)),
            "quiet_cores": quiet,
            **beside,
        }
        progress.say(f"ladder, {servers.arm.name}", brief(rung))
        yield rung


def brief(rung: dict) -> str:
    """A rung in a line."""
    live = rung["live"]
    return (
        f"{rung['connections']:,} connections: {rung['resident_kib'] / 1024:,.0f} MiB, live p50 "
        f"{live['p50']:.2f} ms, p99 {live['p99']:.2f} ms, {rung['cpu_us']:.1f} µs of CPU a request"
    )


def _beside(servers: Replicas, live: Live, seconds: float) -> dict:
    """Live requests for so long, and the CPU time that one took."""
    used, begun, machine = servers.cpu_seconds(), time.monotonic(), cpu.Machine.now()
    found = live.measure(seconds)
    mine, wall = servers.cpu_seconds() - used, time.monotonic() - begun
    after = cpu.Machine.now()
    others = after.busy - machine.busy - mine - found["generator_cpu_seconds"]
    return {
        "live": found,
        "cpu_us": mine / max(1, found["requests"]) * 1e6,
        "others_cores": max(0.0, others) / wall,
        "stolen_cores": (after.stolen - machine.stolen) / wall,
    }


def _wake(plan: Climb, servers: Replicas, held: Holders, live: Live | None) -> dict:
    """One request on each connection, and then all wait again."""
    connections = plan.rungs[-1]
    seconds = connections / plan.waking
    wakes = servers.sum_of(WAKES) if servers.arm.parks else 0
    used, begun = servers.cpu_seconds(), time.monotonic()
    if live:
        live.begin(seconds)
    stage = held.ask(seconds)
    beside = live.result() if live else None
    servers.rest(connections)
    mine, wall = servers.cpu_seconds() - used, time.monotonic() - begun
    times = stage.times("answered_ms", "due_ms")
    asked = len(times) + (beside["requests"] if beside else 0)
    return {
        "asked": stage.count,
        "answered": len(times),
        "faults": stage.faults,
        "wakes": (servers.sum_of(WAKES) - wakes) if servers.arm.parks else 0,
        "seconds": wall,
        "cpu_us": mine / max(1, asked) * 1e6,
        "mean_ms": sum(times) / max(1, len(times)),
        "median_ms": median(times) if times else 0.0,
        **quantiles(times),
        "live": beside,
    }


def _left(held: Holders) -> int:
    """Connections whose end their clients have not heard of; the last words may be on their way."""
    deadline = time.monotonic() + 5.0
    while (left := held.look()["open"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
