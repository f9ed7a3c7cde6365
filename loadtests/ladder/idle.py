"""A rung: so many idle connections, and live requests beside them."""

import time
from dataclasses import asdict

from loadtests.ladder import network
from loadtests.ladder.holders import Stage, holders
from loadtests.ladder.live import live
from loadtests.ladder.plan import Job
from loadtests.ladder.stack import Stack, stack

SETTLE = 0.3
"""Memory that is given back at all is given back within this time."""


def rung(job: Job, path: str, connections: int) -> dict:
    """Opens the connections, each with one request, and then has them wait."""
    plan, most = job.plan, network.most_files()
    ways = {"most": most, "cpus": job.cpus[:1]}
    gateway = job.gateway if path == "gateway" else ""
    with (
        stack(job.programs, connections=connections, gateway=gateway, **ways) as serving,
        live(job, serving.to) as requests,
    ):
        requests.measure(plan.seconds / 4)
        alone = requests.measure()
        before = memory(serving)
        with holders(
            job.programs.generator,
            serving.to,
            connections=connections,
            most=most,
            cpus=job.cpus[-1:],
        ) as held:
            stage = held.open(connections, connections / plan.opened_per_second, ask=True)
            time.sleep(SETTLE)
            grown = {name: value - before[name] for name, value in memory(serving).items()}
            beside = requests.measure()
            left = held.look()
    return {
        "connections": connections,
        "servers": len(serving.servers),
        "gateways": len(serving.gateways),
        "opened": opened(stage),
        "left": left["open"],
        "grown_kib": grown,
        "alone": asdict(alone),
        "beside": asdict(beside),
    }


def memory(serving: Stack) -> dict[str, float]:
    """Resident memory of each part, and the kernel's, in KiB."""
    return {**serving.resident_kib(), **network.kernel_kib()}


def opened(stage: Stage) -> dict:
    """How the connections came to be."""
    return {
        "failed": stage.failed,
        "faults": stage.faults,
        "seconds": stage.last("connected_ms") / 1e3,
        "connect_ms": stage.times("connected_ms"),
        "answer_ms": stage.times("answered_ms"),
    }
