"""Clients that are slow on purpose, and live requests beside them."""

import time
from dataclasses import asdict

from loadtests.ladder import network
from loadtests.ladder.holders import Holders, holders
from loadtests.ladder.idle import SETTLE, memory, opened
from loadtests.ladder.live import live
from loadtests.ladder.plan import Job
from loadtests.ladder.stack import LARGE, stack

MANNERS = ("slow-head", "slow-read")
"""A header that comes byte by byte; a long reply that is taken in sips. One each second."""

HEADER_SECONDS = 10.0
"""Time for a whole header, of the server as of the gateway (timeouts.header)."""

PATIENCE = 5.0
STEP = 0.1


def rung(job: Job, path: str, manner: str) -> dict:
    """Opens the connections and lets them be slow; slow headers until the last of them is refused."""
    plan, most = job.plan, network.most_files()
    ways = {"most": most, "cpus": job.cpus[:1]}
    gateway = job.gateway if path == "gateway" else ""
    with (
        stack(job.programs, connections=plan.slow, gateway=gateway, **ways) as serving,
        live(job, serving.to) as requests,
    ):
        requests.measure(plan.seconds / 4)
        alone = requests.measure()
        before = memory(serving)
        page = (f"/static/{LARGE}", serving.root / LARGE)
        with holders(
            job.programs.generator,
            serving.to,
            connections=plan.slow,
            most=most,
            cpus=job.cpus[-1:],
            page=page,
            manner=manner,
        ) as held:
            stage = held.open(plan.slow, plan.slow / plan.opened_per_second, ask=False)
            time.sleep(SETTLE)
            grown = {name: value - before[name] for name, value in memory(serving).items()}
            beside = requests.measure()
            meanwhile = held.look()["open"]
            left = _refused(held) if manner == "slow-head" else held.look()
    return {
        "connections": plan.slow,
        "manner": manner,
        "servers": len(serving.servers),
        "gateways": len(serving.gateways),
        "opened": opened(stage),
        "left": left["open"],
        "open_beside": meanwhile,
        "refusals": left["refusals"],
        "lasted_s": left["lasted_s"],
        "grown_kib": grown,
        "alone": asdict(alone),
        "beside": asdict(beside),
    }


def _refused(held: Holders) -> dict:
    """Waits until none is left, or for longer than a header may take."""
    deadline = time.monotonic() + HEADER_SECONDS + PATIENCE
    while (found := held.look())["open"] > 0 and time.monotonic() < deadline:
        time.sleep(STEP)
    return found
