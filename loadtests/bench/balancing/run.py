"""`balancing`: takes every policy through every scenario at the same time, and writes the result."""

import json
import os
import resource
import shutil
import tempfile
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu, machine
from loadtests.bench.balancing import climb, picture, policies, report
from loadtests.bench.balancing.scenarios import SCENARIOS
from loadtests.bench.balancing.stack import Programs, Shape, Stack, end_all
from loadtests.bench.lanes import builds
from tools import progress, resolve

SHAPES = tuple(Shape(replicas, gateways) for gateways in (1, 3) for replicas in (2, 3, 4))
QUICK_SHAPES = (Shape(3, 3),)
QUICK_SCENARIOS = ("half", "antagonist", "failing")
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    shapes: tuple[Shape, ...] = SHAPES
    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    policies: tuple[str, ...] = tuple(policies.POLICIES)
    seeds: tuple[int, ...] = SEEDS
    at_once: int = 3
    """Shapes that are measured at the same time."""
    profile: str = "release"


QUICK = Plan(QUICK_SHAPES, QUICK_SCENARIOS, seeds=SEEDS[:1])


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    record = measure(plan)
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-balancing.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-balancing.md").write_text(text)
    (out / "bench-balancing.svg").write_text(picture.draw(record))
    progress.say("results", f"in {out}/bench-balancing.md, .json and .svg")
    return 0


def measure(plan: Plan) -> dict:
    """Everything that the report tells."""
    tools = resolve.ensure(["helm", "envoy", "supervisord"])
    peers = builds.build(builds.BENCH, ["load-generator", "virtual-replica"], plan.profile)
    programs = Programs(peers / "virtual-replica", peers / "load-generator", tools)
    folder = Path(tempfile.mkdtemp(prefix="bench-balancing-"))
    began, before = time.monotonic(), cpu.Machine.now()
    try:
        with ThreadPoolExecutor(plan.at_once) as pool:
            jobs = [
                pool.submit(_shape, plan, shape, programs, folder / f"{index}")
                for index, shape in enumerate(plan.shapes)
            ]
            try:
                wait(jobs, return_when=FIRST_EXCEPTION)
                cells = [cell for job in jobs if job.done() for cell in job.result()]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                end_all()
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    after, seconds = cpu.Machine.now(), time.monotonic() - began
    return {
        "machine": machine.describe(),
        "seconds": seconds,
        "busy_share": (after.busy - before.busy) / seconds / (os.cpu_count() or 1),
        "stolen_share": (after.stolen - before.stolen) / seconds / (os.cpu_count() or 1),
        "policies": {name: policies.POLICIES[name] for name in plan.policies},
        "shapes": [str(shape) for shape in plan.shapes],
        "scenarios": plan.scenarios,
        "seeds": plan.seeds,
        "cells": cells,
    }


def _shape(plan: Plan, shape: Shape, programs: Programs, folder: Path) -> list[dict]:
    """All seeds of all scenarios; the scenarios take turns, and the policies run side by side."""
    cells = []
    with ExitStack() as stack:
        stacks = {
            name: stack.enter_context(
                Stack(programs, shape, policies.POLICIES[name], folder / str(index))
            )
            for index, name in enumerate(plan.policies)
        }
        for seed in plan.seeds:
            for name in (n for n in plan.scenarios if seed <= SCENARIOS[n].seeds):
                begun, before = time.monotonic(), cpu.Machine.now()
                found = climb.scenario(stacks, SCENARIOS[name], shape, seed)
                busy = (cpu.Machine.now().busy - before.busy) / (time.monotonic() - begun)
                for cell in found:
                    cell |= {"shape": str(shape), "seed": seed, "busy": busy / os.cpu_count()}
                cells += found
                progress.say(f"{shape}, seed {seed}", report.brief(found))
    return cells
