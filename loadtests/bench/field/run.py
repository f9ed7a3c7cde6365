"""`field`: measures every contender in interleaved rounds, then the parts that stand apart."""

import json
import os
import random
import resource
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.generator import may_be_first
from loadtests.bench.field import budget, measures, parts, projects, report
from loadtests.bench.field.bench import Bench, Plan, Work
from loadtests.bench.field.contender import MIXED, PROJECTS, WORK, Contender
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.field.measures import Sample
from loadtests.bench.field.running import Running
from loadtests.bench.field.turns import Turns
from loadtests.bench.field.workloads import REQUESTS
from tools import progress
from tools.errors import ToolError


@dataclass
class Record:
    """What has been measured so far."""

    cells: dict = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    described: dict[str, dict] = field(default_factory=dict)
    """The contenders."""
    took: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds by part."""

    def add(self, part: str, contender: Contender, number: int, sample: Sample) -> None:
        """One more sample."""
        self.cells[part][contender.name].append({"round": number, **sample})

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Counts the time of a part."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.took[part] += time.monotonic() - begun


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request got no right answer, or a part failed."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for the server and one for the load")
    # Servers and generator inherit it: 10,000 connections are as many files on either side.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    record = measure(plan, (cpus[0], cpus[1]))
    out.mkdir(parents=True, exist_ok=True)
    # First, so that a fault of the report costs no measurement: --render writes it again.
    (out / report.RECORD).write_text(json.dumps(record, indent=1) + "\n")
    print(report.write(record, out))
    progress.say("results", f"in {out}: bench.md, bench.json and bench-*.svg")
    return 1 if report.wrong(record) or record["failed_parts"] else 0


def measure(plan: Plan, cpus: tuple[int, int]) -> dict:
    """Everything that the report tells."""
    begun, load_before = time.monotonic(), os.getloadavg()
    found = Record(described={one.name: _described(one) for one in _chosen(plan)})
    programs = _programs(plan, found)
    folder = builds.build(builds.BENCH, ["load-generator"], plan.profile)
    for part in _apart(plan):
        parts.APART[part].prepare(plan.profile)
    with tempfile.TemporaryDirectory(prefix="bench-field-") as name:
        generator = folder / "load-generator"
        bench = Bench(programs, generator, cpus, plan.profile, Path(name))
        planned = budget.of(plan, bench.contenders())
        progress.say("budget", budget.told(planned))
        built = time.monotonic()
        bench = _rounds(plan, bench, found)
        apart = _measured_apart(plan, bench, found)
    seconds = {"build": built - begun, "measure": time.monotonic() - built}
    progress.say(
        "budget", f"took {seconds['measure'] / 60:.1f} min, and builds {seconds['build']:.0f} s"
    )
    cells = {part: dict(samples) for part, samples in found.cells.items()}
    return {
        "plan": {
            "rounds": plan.rounds,
            "quick": plan.quick,
            "parts": plan.parts,
            "contenders": plan.contenders,
            "seed": plan.seed,
            "profile": plan.profile,
            "seconds": asdict(plan.seconds),
            "budget": planned,
        },
        "machine": machine.describe(),
        "versions": _versions(),
        "cpus": cpus,
        "generator_first": may_be_first(),
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "seconds": seconds,
        "parts": dict(found.took),
        "contenders": found.described,
        "cells": {part: cells[part] for part in (*REQUESTS, PROJECTS) if part in cells},
        "mixed": cells.get(MIXED, {}),
        "idle": cells.get(parts.IDLE, {}),
        **apart,
    }


def _chosen(plan: Plan) -> list[Contender]:
    return [one for name, one in CONTENDERS.items() if name in (plan.contenders or CONTENDERS)]


def _apart(plan: Plan) -> list[str]:
    return [part for part in parts.APART if part in plan.parts]


def _programs(plan: Plan, found: Record) -> dict[str, Path]:
    """Those that can be built; the run goes on without the others and says why."""
    programs = {}
    for contender in _chosen(plan):
        try:
            given = plan.server if contender.name == servers.CORELANE else None
            program = given or contender.build(plan.profile)
            found.described[contender.name] |= {
                "version": contender.version(program),
                "installed": asdict(contender.installed(program)),
            }
        except ToolError as error:
            _leave_out(found, contender, error)
        else:
            programs[contender.name] = program
    if not programs:
        raise ToolError("no contender could be built")
    return programs


def _leave_out(found: Record, contender: Contender, error: ToolError) -> None:
    found.described[contender.name]["missing"] = str(error)
    progress.say("missing", f"{contender.name}: {error}")


def _rounds(plan: Plan, bench: Bench, found: Record) -> Bench:
    """All contenders in each round, in an order of its own, so that none is always the first."""
    if not set(parts.ROUNDS) & set(plan.parts):
        return bench
    with ExitStack() as stack:
        kept = None
        if PROJECTS in plan.parts and bench.contenders(PROJECTS):
            kept = stack.enter_context(projects.store(bench))
        if MIXED in plan.parts and bench.contenders(MIXED):
            bench = replace(bench, work=_calibrated(bench))
        turns = stack.enter_context(Turns(bench, plan.seconds, kept))
        for number in range(1, plan.rounds + 1):
            contenders = bench.contenders()
            order = random.Random(plan.seed * 1000 + number).sample(contenders, len(contenders))
            for contender in order:
                try:
                    _round(plan, bench, turns, kept, contender, number, found)
                except ToolError as error:
                    _leave_out(found, contender, error)
                    turns.end(contender.name)
                    bench = bench.without(contender.name)
    return bench


def _calibrated(bench: Bench) -> Work:
    """Found by the first that computes: the loop is the same for all compiled ones."""
    contender = bench.contenders(WORK)[0]
    with bench.running(contender) as process:
        return Work(measures.ops_per_ms(bench, process))


def _round(
    plan: Plan,
    bench: Bench,
    turns: Turns,
    kept: projects.Store | None,
    contender: Contender,
    number: int,
    found: Record,
) -> None:
    """One contender: a start of its own for start and memory, then all workloads."""
    told: list[str] = []
    if parts.IDLE in plan.parts:
        with found.timed(parts.IDLE), bench.running(contender) as process:
            sample = _tried(lambda: measures.idle(bench, process, contender, plan.seconds.idle))
        found.add(parts.IDLE, contender, number, sample)
        told.append(_brief(parts.IDLE, sample))
    takes = [part for part in parts.ROUNDS if part in plan.parts and part in contender.workloads]
    if takes:
        with ExitStack() as stack:
            with found.timed(parts.STARTS):
                process = stack.enter_context(turns.of(contender))
            for part in takes:
                with found.timed(part):
                    sample = _tried(
                        lambda part=part: _sample(
                            plan, bench, kept, contender, process, part, number
                        )
                    )
                found.add(part, contender, number, sample)
                told.append(_brief(part, sample))
    progress.say(f"{number}/{plan.rounds}", f"{contender.name}: {', '.join(told)}")


def _sample(
    plan: Plan,
    bench: Bench,
    kept: projects.Store | None,
    contender: Contender,
    process: Running,
    part: str,
    number: int,
) -> Sample:
    if part == MIXED:
        return measures.mixed(bench, process, number, plan.seconds.mixed)
    if part == PROJECTS:
        return projects.cell(bench, process, contender, kept, number, plan.seconds)
    return measures.cell(bench, process, contender, REQUESTS[part], plan.seconds)


def _tried(part) -> Sample:
    """The sample, or why there is none: a contender that cannot carry a load says so."""
    try:
        return part()
    except ToolError as error:
        return {"error": str(error)}


def _brief(part: str, sample: Sample) -> str:
    if "error" in sample:
        return f"{part} {sample['error'].splitlines()[0]}"
    if part == parts.IDLE:
        memory = f"{sample['resident_kib'] / 1024:.0f} MiB, {sample['kib_per_connection']:.1f} KiB"
        return f"start {sample['start_ms']:.0f} ms, {memory}"
    if part == MIXED:
        return f"{part} p99 {_p99(sample['fast'])}"
    closed, wrong = sample["closed"], sample["closed"]["wrong"] + sample["open"]["wrong"]
    text = f"{part} {closed['cpu_us']:.1f} µs p99 {_p99(sample['open']['latency_ms'])}"
    return f"{text}, {wrong} wrong" if wrong else text


def _p99(latency: dict[str, float] | None) -> str:
    return f"{latency['p99']:.2f} ms" if latency else "none"


def _measured_apart(plan: Plan, bench: Bench, found: Record) -> dict:
    """What the parts give that stand apart: under their names, or with more beside. One that fails
    costs nothing of what has been measured before it."""
    results: dict = {"failed_parts": {}}
    for part in _apart(plan):
        try:
            with found.timed(part):
                result = parts.APART[part].measure(bench, plan)
        except ToolError as error:
            results["failed_parts"][part] = str(error)
            progress.say("missing", f"{part}: {error}")
        else:
            results |= result if part in result else {part: result}
    return results


def _described(contender: Contender) -> dict[str, object]:
    return {
        "family": contender.family,
        "settings": contender.settings,
        "workloads": sorted(contender.workloads),
        "threads": 1,
    }


def _versions() -> dict[str, str]:
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    return {"rustc": rustc.stdout.split()[1]}
