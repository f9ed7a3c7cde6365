"""What one connection that waits costs in memory."""

import time
from dataclasses import dataclass

from loadtests.bench import cpu
from loadtests.bench.idle.arms import Arm, Programs
from loadtests.bench.idle.clients import clients, opened
from loadtests.bench.idle.replicas import PARKED, Setting, certificate, replicas
from loadtests.ladder.network import kernel_kib


@dataclass(frozen=True)
class Plan:
    """How many wait, and how long they are let alone."""

    connections: int
    park_after: str
    settle: float


def sample(programs: Programs, arm: Arm, plan: Plan, cpus: tuple[int, int]) -> dict:
    """Opens the connections, each with one request, and lets them wait."""
    connections = plan.connections
    begun, machine = time.monotonic(), cpu.Machine.now()
    with (
        certificate() as pem,
        replicas(programs, arm, 1, Setting(connections, plan.park_after, cpus[0], pem)) as server,
        clients(programs, server, 1, cpus[1]) as held,
    ):
        opened(held, 1)
        server.rest(1)
        before, kernel = server.resident_kib(), kernel_kib()
        stage = opened(held, connections - 1)
        at_once = server.resident_kib()
        server.rest(connections)
        # Memory that goes back to the system does so within this time, or not at all.
        time.sleep(plan.settle)
        resident, after = server.resident_kib(), kernel_kib()
        left, parked = held.look()["open"], server.sum_of(PARKED) if arm.parks else 0
    wall = time.monotonic() - begun
    count = connections - 1
    return {
        "before_kib": before,
        "resident_kib": resident,
        "kib_when_opened": (at_once - before) / count,
        "kib_per_connection": (resident - before) / count,
        "kernel_kib": per_connection(kernel, after, count),
        "seconds_to_open": stage.seconds,
        "lost": connections - left,
        "parked": parked,
        "stolen_cores": (cpu.Machine.now().stolen - machine.stolen) / wall,
    }


def per_connection(
    before: dict[str, float], after: dict[str, float], connections: int
) -> dict[str, float]:
    """The kernel's KiB for each: the objects of both ends (slabs), and what their buffers hold."""
    return {name: (after[name] - before[name]) / connections for name in before}
