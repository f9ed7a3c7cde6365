"""`idle`: measures in a network of its own, and writes the result."""

import ctypes
import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.experiment import builds
from loadtests.bench.idle import ladder, memory, picture, report
from loadtests.bench.idle.arms import (
    ARMS,
    CLIMBING,
    CORELANE,
    NGINX_OVER_TLS,
    PARKED,
    PARKED_TLS,
    Arm,
    Programs,
)
from loadtests.bench.idle.replicas import parks
from loadtests.ladder import network
from tools import progress, resolve, table, versions
from tools.errors import ToolError

PARTS = ("memory", "ladder")
ROUNDS = 2
CLIMBS = 3
SPARE = 500
"""Connections of a replica beside those that wait."""

CLONE_NEWNET = 0x40000000
"""unshare(2)."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    parts: tuple[str, ...] = PARTS
    arms: tuple[str, ...] = ()
    """Only these of the memory, by name; empty for all."""
    rounds: int = ROUNDS
    """Of the memory."""
    climbs: int = CLIMBS
    """Of the ladder, by each arm."""
    connections: int = 10_000
    """Of the memory."""
    rungs: tuple[int, ...] = (0, 40_000, 100_000)
    rate: float = 1_000.0
    """Live requests per second."""
    seconds: float = 4.0
    """How long live requests are measured at each rung."""
    waking: float = 5_000.0
    """Connections woken per second at the top."""
    quiet: float = 2.0
    """Seconds at each rung in which nobody asks."""
    park_after: str = "1s"
    """Sooner than by default, so that a run is short; what is parked is the same."""
    settle: float = 3.5
    """Longer than corelane-server's allocator keeps what is free."""
    server: Path | None = None
    """Another build of corelane-server."""
    profile: str = "release"


QUICK = {"rounds": 1, "climbs": 1, "rungs": (0, 10_000, 40_000), "seconds": 3.0}
TINY = {
    "rounds": 1,
    "climbs": 2,
    "connections": 200,
    "rungs": (0, 200),
    "rate": 200.0,
    "seconds": 0.5,
    "waking": 1_000.0,
    "quiet": 0.1,
    "park_after": "100ms",
    "settle": 0.1,
    "arms": (PARKED.name, PARKED_TLS.name, NGINX_OVER_TLS.name),
}
"""To see that all of it works; its figures say nothing."""


@dataclass
class Record:
    """What is kept."""

    plan: dict
    machine: dict
    versions: dict[str, str]
    profile: str
    cpus: tuple[int, int]
    files: int
    memory: dict[str, list[dict]] = field(default_factory=dict)
    ladder: dict[str, list[dict]] = field(default_factory=dict)
    minutes: float = 0.0


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a connection or a request was lost."""
    record = measure(plan)
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-idle.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-idle.md").write_text(text)
    if record["ladder"]:
        (out / "bench-idle.svg").write_text(picture.draw(record))
    progress.say("results", f"in {out}/bench-idle.md and .json")
    return 1 if report.wrong(record) else 0


def measure(plan: Plan) -> dict:
    """Everything that the report tells."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))[:2]
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for the servers and one for their clients")
    if os.geteuid() != 0:
        raise ToolError("only root can make a network namespace")
    arms = [arm for arm in ARMS if not plan.arms or arm.name in plan.arms]
    programs = _programs(plan, arms)
    if not parks(programs.server):
        raise ToolError(f"{programs.server} does not know --park-after: give a newer build")
    unit = network.most_files()
    record = Record(
        plan={**asdict(plan), "server": str(plan.server) if plan.server else None},
        machine=machine.describe(),
        versions=_versions(programs),
        profile=plan.profile,
        cpus=cpus,
        files=unit,
    )
    begun = time.monotonic()
    _leave()
    if "memory" in plan.parts:
        record.memory = _memory(plan, programs, arms, cpus)
    if "ladder" in plan.parts:
        record.ladder = _ladder(plan, programs, cpus, unit - SPARE)
    record.minutes = (time.monotonic() - begun) / 60
    return asdict(record)


def _leave() -> None:
    """Goes on in a network namespace of its own, which ends with this process and its children."""
    outside = network.network()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise ToolError(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    network.prepare(outside)


def _memory(
    plan: Plan, programs: Programs, arms: list[Arm], cpus: tuple[int, int]
) -> dict[str, list[dict]]:
    """The samples by arm; within a round they take turns, and the next begins with the last."""
    wanted = memory.Plan(plan.connections, plan.park_after, plan.settle)
    found: dict[str, list[dict]] = {arm.name: [] for arm in arms}
    for number in range(1, plan.rounds + 1):
        for arm in arms if number % 2 else arms[::-1]:
            sample = memory.sample(programs, arm, wanted, cpus)
            found[arm.name].append(sample)
            text = f"{arm.name}: {sample['kib_per_connection']:.2f} KiB for each connection"
            progress.say(f"memory {number}/{plan.rounds}", text)
    return found


def _ladder(
    plan: Plan, programs: Programs, cpus: tuple[int, int], unit: int
) -> dict[str, list[dict]]:
    """The climbs by arm, which take turns."""
    climb = ladder.Climb(
        plan.rungs,
        plan.rate,
        plan.seconds,
        plan.waking,
        plan.quiet,
        plan.park_after,
        plan.settle,
        unit,
    )
    found: dict[str, list[dict]] = {arm.name: [] for arm in CLIMBING}
    for number in range(plan.climbs):
        for arm in CLIMBING[::-1] if number % 2 else CLIMBING:
            found[arm.name].append(ladder.climb(programs, arm, climb, cpus))
    return found


def _programs(plan: Plan, arms: list[Arm]) -> Programs:
    server = plan.server
    if server is None:
        server = builds.build(builds.SERVICES, [CORELANE], plan.profile) / CORELANE
    peers = builds.build(builds.BENCH, ["load-generator"], plan.profile)
    wanted = "memory" in plan.parts and any(arm.program == "nginx" for arm in arms)
    nginx = resolve.ensure(["nginx"])["nginx"] if wanted else None
    return Programs(server, nginx, peers / "load-generator")


def _versions(programs: Programs) -> dict[str, str]:
    ours = builds.locked(builds.SERVICES)
    found = {name: ours[name] for name in ("corelane", "hyper", "tokio", "rustls")}
    if programs.nginx:
        found["nginx"] = versions.remembered(programs.nginx, table.find("nginx"))
    return found
