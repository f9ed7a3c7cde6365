"""`lanes`: measures the chosen rows in interleaved rounds, and writes the result."""

import json
import os
import resource
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.generator import may_be_first
from loadtests.bench.experiment.measurement import calibrate
from loadtests.bench.lanes import report, rows
from loadtests.bench.lanes.rows import Bench
from tools import progress
from tools.errors import ToolError

SECONDS = {"cpu": 4.0, "mixed-one": 20.0, "mixed-two": 20.0, "few": 3.0, "memory": 2.0}
"""How long each row measures one server in one round; for memory, how long it waits."""

QUICK = {"cpu": 1.0, "mixed-one": 4.0, "mixed-two": 4.0, "few": 1.0, "memory": 1.0}


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    rows: tuple[str, ...]
    rounds: int
    seconds: dict[str, float]
    programs: tuple[str, ...] = ()
    """Only these, by program; empty for all."""
    server: Path | None = None
    """Another build of corelane-server."""
    profile: str = "release"


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request got no right answer."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for the server and one for the load")
    # Servers and generator inherit it: 10,000 connections are as many files on either side.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    record = measure(plan, (cpus[0], cpus[1]))
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-lanes.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-lanes.md").write_text(text)
    progress.say("results", f"in {out}/bench-lanes.md and .json")
    return 1 if report.wrong(record) else 0


def measure(plan: Plan, cpus: tuple[int, int]) -> dict:
    """Everything that the report tells."""
    names = set(plan.programs) or {
        *builds.FRAMEWORKS,
        *("floor", "nginx", "corelane-server"),
    }
    programs = builds.obtain(names, plan.server, plan.profile)
    bench = Bench(programs, cpus, plan.seconds)
    load_before = os.getloadavg()
    if set(plan.rows) - {"cpu", "memory"}:
        bench = replace(bench, work=calibrate(programs, cpus))
    results = {row: _row(plan, bench, row) for row in plan.rows}
    return {
        "plan": {"rows": plan.rows, "rounds": plan.rounds, "seconds": plan.seconds},
        "machine": machine.describe(),
        "versions": builds.describe(programs, names),
        "profile": plan.profile,
        "cpus": cpus,
        "generator_first": may_be_first(),
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "work": asdict(bench.work) if bench.work else None,
        "results": results,
    }


def _row(plan: Plan, bench: Bench, row: str) -> dict[str, list[dict]]:
    """The samples of a row by server; within a round the servers take turns."""
    chosen = [
        server
        for server in rows.servers(row, bench)
        if not plan.programs or server.program in plan.programs
    ]
    samples: dict[str, list[dict]] = {server.name: [] for server in chosen}
    for number in range(1, plan.rounds + 1):
        for server in chosen:
            sample = rows.ROWS[row](bench, server, number)
            samples[server.name].append(sample)
            text = f"{server.name}: {report.brief(row, sample)}"
            progress.say(f"{row} {number}/{plan.rounds}", text)
    return samples
