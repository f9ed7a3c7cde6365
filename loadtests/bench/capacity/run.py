"""`capacity`: measures all cells in interleaved rounds, and writes the result."""

import json
import os
import random
import resource
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.capacity import measure, report, verdict
from loadtests.bench.capacity.cells import NAMES, Cell, named
from loadtests.bench.capacity.load import Asker
from loadtests.bench.capacity.measure import FULL, Bench, Lengths
from loadtests.bench.lanes import builds, rows
from loadtests.bench.lanes.load import may_be_first
from tools import progress
from tools.errors import ToolError

ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    cells: tuple[str, ...] = NAMES
    rounds: int = ROUNDS
    lengths: Lengths = FULL
    ahead: bool = False
    """Whether servers run ahead of every ordinary thread."""
    server: Path | None = None
    """Another build of corelane-server."""
    command: Path | None = None
    """Another build of corelane."""
    profile: str = "release"


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request got a wrong answer or none."""
    # Servers and generator inherit it.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    record = _record(plan)
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-capacity.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-capacity.md").write_text(text)
    progress.say("results", f"in {out}/bench-capacity.md and .json")
    return 1 if verdict.wrong(record) else 0


def _record(plan: Plan) -> dict:
    """Everything that the report tells."""
    cpus = sorted(os.sched_getaffinity(0))
    if plan.ahead and not may_be_first():
        raise ToolError("--ahead: this user may not set a real-time priority (chrt --fifo 1 true)")
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for the server and one for the load")
    programs = builds.obtain(set(), plan.server, plan.profile)
    command = (
        plan.command or builds.build(builds.SERVICES, ["corelane-cli"], plan.profile) / "corelane"
    )
    load_before, begun = os.getloadavg(), time.monotonic()
    work = rows.calibrate(rows.Bench(programs, (cpus[0], cpus[1]), {}))
    asker = Asker(programs.generator, cpus[1:2], work.ops_per_ms)
    bench = Bench(programs, command, asker, cpus[:2], plan.lengths, plan.ahead)
    bench = replace(bench, outside=measure.outside(bench))
    samples = _samples(plan, bench)
    return {
        "command": " ".join(["python3 loadtests/bench", *sys.argv[1:]]),
        "plan": {"rounds": plan.rounds, "lengths": asdict(plan.lengths)},
        "machine": machine.describe(),
        "profile": plan.profile,
        "ahead": plan.ahead,
        "work": asdict(work),
        "outside_us": 1e6 * bench.outside,
        "seconds": time.monotonic() - begun,
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "cells": [{**asdict(cell), "samples": samples[cell.name]} for cell in named(plan.cells)],
    }


def _samples(plan: Plan, bench: Bench) -> dict[str, list[dict]]:
    """The samples by cell. Each round has another order, so that none is always the first."""
    chosen: list[Cell] = named(plan.cells)
    samples: dict[str, list[dict]] = {cell.name: [] for cell in chosen}
    for number in range(1, plan.rounds + 1):
        for cell in random.Random(number).sample(chosen, len(chosen)):
            sample = measure.measured(bench, cell, number)
            samples[cell.name].append(sample)
            progress.say(f"{number}/{plan.rounds}", f"{cell.name}: {report.brief(sample)}")
    return samples
