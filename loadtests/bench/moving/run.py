"""`moving`: measures the chosen parts in interleaved rounds, and writes the result."""

import json
import os
import resource
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from loadtests.bench import machine
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.measurement import calibrate
from loadtests.bench.moving import busy, cost, hot, often, picture, reading, report, through
from loadtests.bench.moving.ahead import ahead
from loadtests.bench.moving.bench import FULL, Bench, Programs, Sample, Size
from tools import progress, resolve
from tools.errors import ToolError

GATEWAY = "gateway"

ENVOY = ("helm", "supervisord", "envoy")
"""What the gateway takes; supervisord's Python reads YAML."""

PARTS: dict[str, ModuleType] = {
    "hot": hot,
    GATEWAY: through,
    "cost": cost,
    "busy": busy,
    "often": often,
}
"""What is measured, in the order of the report. Each tells the `NAMES` of its arms, and `measured` yields one of
them, the round and a sample, again and again."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and how much."""

    parts: tuple[str, ...] = tuple(PARTS)
    size: Size = FULL
    server: Path | None = None
    """Another build of corelane-server."""
    profile: str = "release"
    ahead: bool = False
    """Whether everything that is measured runs ahead of other processes."""


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request got no right answer."""
    with ahead() if plan.ahead else nullcontext():
        record = measure(plan)
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-moving.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-moving.md").write_text(text)
    (out / "bench-moving.svg").write_text(picture.draw(record))
    progress.say("results", f"in {out}/bench-moving.md, .json and .svg")
    return 1 if reading.wrong(record) else 0


def measure(plan: Plan) -> dict:
    """Everything that the report tells."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for each lane")
    # Servers and generator inherit it: 10,000 connections are as many files on either side.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    built = builds.obtain(set(), plan.server, plan.profile)
    begun, load_before = time.monotonic(), os.getloadavg()
    pair = (cpus[0], cpus[1])
    work = calibrate(built, pair)
    tools = resolve.ensure(ENVOY) if GATEWAY in plan.parts else {}
    bench = Bench(Programs(built.server, built.generator, tools), pair, plan.size, work)
    results = {part: _part(part, bench) for part in plan.parts}
    return {
        "command": " ".join(["python3 loadtests/bench", *sys.argv[1:]]),
        "plan": {"parts": plan.parts, "size": asdict(plan.size)},
        "machine": machine.describe(),
        "versions": builds.describe(built, set()),
        "profile": plan.profile,
        "ahead": plan.ahead,
        "cpus": pair,
        "seconds": time.monotonic() - begun,
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "work": asdict(work),
        "ops": bench.ops,
        "results": results,
    }


def _part(part: str, bench: Bench) -> dict[str, list[Sample]]:
    """The samples of a part by arm."""
    found: dict[str, list[Sample]] = {name: [] for name in PARTS[part].NAMES}
    for name, number, sample in PARTS[part].measured(bench):
        found[name].append(sample)
        progress.say(f"{part} {number}", f"{name}: {reading.brief(part, sample)}")
    return found
