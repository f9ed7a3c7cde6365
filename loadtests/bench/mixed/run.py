"""`mixed`: measures all cells in interleaved rounds, and writes the result."""

import json
import os
import random
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.experiment import builds
from loadtests.bench.gateway.proxies import Programs
from loadtests.bench.mixed import measure, picture, report, sync
from loadtests.bench.mixed.cells import DATABASES, MODES, PATHS, Cell, cells
from loadtests.bench.mixed.databases import databases
from loadtests.bench.mixed.measure import FULL, Bench, Size
from tools import progress, resolve

ROUNDS = 3

TOOLS = ("helm", "supervisord", "envoy")


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    databases: tuple[str, ...] = DATABASES
    paths: tuple[str, ...] = PATHS
    modes: tuple[str, ...] = tuple(MODES)
    rounds: int = ROUNDS
    size: Size = FULL
    server: Path | None = None
    """Another build of corelane-server."""
    profile: str = "release"


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request was no success."""
    # Server, gateway and generator inherit it: each user is a connection.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    record = _record(plan)
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-mixed.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-mixed.md").write_text(text)
    (out / "bench-mixed.svg").write_text(picture.draw(record))
    progress.say("results", f"in {out}/bench-mixed.md, .json and .svg")
    return 1 if report.errors(record) else 0


def _record(plan: Plan) -> dict:
    """Everything that the report tells."""
    built = builds.obtain(set(), plan.server, plan.profile)
    programs = Programs(resolve.ensure(TOOLS), built.generator, built.server)
    cpus = sorted(os.sched_getaffinity(0))
    load_before, begun, synced = os.getloadavg(), time.monotonic(), sync.measure()
    with databases() as known:
        bench = Bench(programs, known, cpus, plan.size)
        samples = _samples(plan, bench)
        found = known.versions()
    return {
        "command": " ".join(["python3 loadtests/bench", *sys.argv[1:]]),
        "plan": {"rounds": plan.rounds, "size": asdict(plan.size)},
        "machine": machine.describe(),
        "versions": found,
        "profile": plan.profile,
        "sync": synced,
        "seconds": time.monotonic() - begun,
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "cells": [
            {**asdict(cell), "title": cell.title, "samples": samples[cell.name]}
            for cell in _chosen(plan)
        ],
    }


def _chosen(plan: Plan) -> list[Cell]:
    return cells(plan.databases, plan.paths, plan.modes)


def _samples(plan: Plan, bench: Bench) -> dict[str, list[dict]]:
    """The samples by cell. Each round has another order, so that none is always the first."""
    chosen = _chosen(plan)
    samples: dict[str, list[dict]] = {cell.name: [] for cell in chosen}
    for number in range(1, plan.rounds + 1):
        for cell in random.Random(number).sample(chosen, len(chosen)):
            sample = measure.measured(bench, cell, number)
            samples[cell.name].append(sample)
            progress.say(f"{number}/{plan.rounds}", f"{cell.title}: {report.brief(sample)}")
    return samples
