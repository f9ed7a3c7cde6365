"""Measures rounds until a verdict, or until the last round."""

import os
import resource
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from loadtests.bench.experiment import builds as programs
from loadtests.bench.experiment.measurement import SLOW_SHARE, calibrate
from loadtests.compare import trees, verdict
from loadtests.compare.builds import Build, build
from loadtests.compare.measures import BUILDS, MARGINS, MEASURES, Measure, Round, differences
from loadtests.compare.stand import LOAD, WORK_MS, Load, Stand, measure_round
from loadtests.compare.verdict import Look
from tools import progress
from tools.errors import ToolError

LOOKS = (10, 15, 20)
"""Rounds after which the verdict is computed."""

SECONDS = {"closed": 0.25, "open": 0.5}
"""Length of a slice, by its loop."""

QUICK = {"closed": 0.05, "open": 0.1}


@dataclass(frozen=True)
class Plan:
    """What is compared, and how long."""

    base: str
    """A reference of git."""
    looks: tuple[int, ...] = LOOKS
    measures: tuple[Measure, ...] = MEASURES
    margins: Mapping[str, float] = field(default_factory=lambda: MARGINS)
    """By the kind of measure, in percent."""
    seconds: Mapping[str, float] = field(default_factory=lambda: SECONDS)
    seed: int = 1
    profile: str = "release"
    servers: Mapping[str, Path] = field(default_factory=dict)
    """Other builds of the server, by `base` and `head`."""

    def by_measure(self) -> dict[str, float]:
        """The margins by the measure's name."""
        return {measure.name: self.margins[measure.kind] for measure in self.measures}


@dataclass(frozen=True)
class Result:
    """A comparison that ended."""

    plan: Plan
    builds: Mapping[str, Build]
    load: Load | None
    started: datetime
    seconds: float
    load_average: tuple[float, float, float]
    rounds: Sequence[Round]
    look: Look


def prepare(plan: Plan) -> None:
    """Builds all that a comparison takes."""
    with ExitStack() as stack:
        _builds(plan, stack)
        _generator(plan)


def compare(plan: Plan) -> Result:
    """Builds and measures both."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for what is measured and one for the load")
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        found = _builds(plan, stack)
        stand = Stand(found, _generator(plan), (cpus[0], cpus[1]), plan.seconds)
        if any(measure.loop == "open" for measure in plan.measures):
            stand = replace(stand, load=_load(stand))
        started, average = datetime.now(UTC), os.getloadavg()
        rounds, look = _rounds(plan, stand)
        seconds = (datetime.now(UTC) - started).total_seconds()
        return Result(plan, found, stand.load, started, seconds, average, rounds, look)


def _builds(plan: Plan, stack: ExitStack) -> dict[str, Build]:
    through = any(measure.path == "gateway" for measure in plan.measures)
    trees_by_name = {
        "base": stack.enter_context(trees.base(trees.commit(plan.base))),
        "head": trees.head(),
    }
    return {
        name: build(name, tree, plan.servers.get(name), plan.profile, through_gateway=through)
        for name, tree in trees_by_name.items()
    }


def _generator(plan: Plan) -> Path:
    return programs.build(programs.BENCH, ["load-generator"], plan.profile) / "load-generator"


def _load(stand: Stand) -> Load:
    """The same for both builds, and a rate that the slower one carries."""
    works = []
    for name in BUILDS:
        of = programs.Programs(stand.builds[name].server, None, stand.generator.parent)
        works.append(calibrate(of, stand.cpus))
    ops = works[0].ops(WORK_MS)
    dearest = max(
        SLOW_SHARE * ops / work.ops_per_ms * 1e3 + (1 - SLOW_SHARE) * work.hello_us
        for work in works
    )
    return Load(ops, round(LOAD * 1e6 / dearest, 1))


def _rounds(plan: Plan, stand: Stand) -> tuple[list[Round], Look]:
    loops: dict[str, set[str]] = {}
    for measure in plan.measures:
        loops.setdefault(measure.path, set()).add(measure.loop)
    draw = Random(plan.seed)
    rounds: list[Round] = []
    for last in plan.looks:
        while len(rounds) < last:
            rounds.append(measure_round(stand, len(rounds) + 1, loops, draw))
            _require_right_answers(rounds[-1])
            look = verdict.look(
                differences(plan.measures, rounds), plan.by_measure(), len(plan.looks)
            )
            _tell(look, plan)
        if look.decided:
            break
    return rounds, look


def _require_right_answers(done: Round) -> None:
    """Nothing can be said of a build that does not answer."""
    for one in done:
        sample = one.sample
        if sample["wrong"]:
            raise ToolError(
                f"{one.build}, {one.path}: {sample['wrong']} of {sample['requests']} requests got a wrong "
                f"answer or none ({', '.join(sample['faults'])})"
            )


def _tell(look: Look, plan: Plan) -> None:
    ratios = ", ".join(f"{one.measure} {one.ratio:.3f}" for one in look.findings)
    progress.say(f"round {look.rounds}", f"of {plan.looks[0]} to {plan.looks[-1]}: {ratios}")
