"""`threads`: runs the matrix and the suspects in interleaved rounds, and writes the result."""

import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.experiment import builds
from loadtests.bench.threads import backlog, company, matrix, offline, picture, report, reuse
from loadtests.bench.threads.matrix import CONNECTIONS, ITERATIONS, Cell, Length, Where, cells
from loadtests.bench.threads.shapes import ONE, SHAPES, Pool, Programs
from tools import progress, resolve
from tools.errors import ToolError

ROUNDS = 3

PARTS = ("matrix", "queue", "one-cpu", "backlog", "company", "reuse")

ALONE = (ONE, Pool(1), Pool(2), Pool(16))
"""What is compared on one CPU."""

ALONE_CELLS = (Cell(1_000, 10_000), Cell(1_000, 1_000_000))


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    rounds: int = ROUNDS
    parts: tuple[str, ...] = PARTS
    connections: tuple[int, ...] = CONNECTIONS
    iterations: tuple[int, ...] = ITERATIONS
    shapes: tuple[str, ...] = tuple(SHAPES)
    length: Length = field(default_factory=Length)
    crowd: backlog.Crowd = field(default_factory=backlog.Crowd)
    queue: int = offline.COUNT
    """Requests of a run without sockets."""
    waiting: tuple[int, ...] = offline.LENGTHS
    """Lengths of its queue."""
    server: Path | None = None
    """Another build of corelane-server."""
    profile: str = "release"


Samples = dict[str, list[dict]]
Step = tuple[str, str, Callable[[], dict]]
"""A part, the name of what is measured, and how."""


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request got no right answer."""
    record = measure(plan)
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-threads.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-threads.md").write_text(text)
    if "matrix" in plan.parts:
        (out / "bench-threads.svg").write_text(picture.draw(record))
    progress.say("results", f"in {out}/bench-threads.md, .json and .svg")
    return 1 if report.wrong(record) else 0


def measure(plan: Plan) -> dict:
    """Everything that the report tells."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: the published test had more than one as well")
    if "backlog" in plan.parts and os.geteuid() != 0:
        raise ToolError("only root can make network namespaces; --parts without backlog does not")
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    programs = _programs(plan)
    load_before, begun = os.getloadavg(), time.monotonic()
    samples: dict[str, Samples] = {part: {} for part in plan.parts}
    for number in range(1, plan.rounds + 1):
        steps = list(_steps(plan, programs, cpus))
        # Each round has another order, so that none is always the first.
        for part, name, step in random.Random(number).sample(steps, len(steps)):
            found = step()
            samples[part].setdefault(name, []).append(found)
            text = f"{part}, {name}: {report.brief(found)}"
            progress.say(f"threads {number}/{plan.rounds}", text)
    return {
        "command": " ".join(["python3 loadtests/bench", *sys.argv[1:]]),
        "plan": _described(plan),
        "machine": machine.describe(),
        "versions": _versions(),
        "cpus": cpus,
        "autogroup": _autogroup(),
        "misses": _misses(plan, programs),
        "samples": {part: dict(sorted(found.items())) for part, found in samples.items()},
        "seconds": time.monotonic() - begun,
        "load_average": {"before": load_before, "after": os.getloadavg()},
    }


def _steps(plan: Plan, programs: Programs, cpus: list[int]) -> Iterator[Step]:
    """What is measured in each round."""
    makers = {
        "matrix": _matrix,
        "queue": _queue,
        "one-cpu": _one_cpu,
        "backlog": _backlog,
        "company": _company,
        "reuse": _reuse,
    }
    for part in plan.parts:
        for name, step in makers[part](plan, programs, cpus):
            yield part, name, step


def _matrix(plan: Plan, programs: Programs, cpus: list[int]) -> Iterator[tuple[str, Callable]]:
    where = Where(cpus, cpus)
    for cell in cells(plan.connections, plan.iterations):
        for name in plan.shapes:
            yield (
                key(cell.name, name),
                lambda cell=cell, name=name: matrix.sample(
                    programs, SHAPES[name], cell, plan.length, where
                ),
            )


def _queue(plan: Plan, programs: Programs, _cpus: list[int]) -> Iterator[tuple[str, Callable]]:
    few = max(1, plan.queue // offline.COMPUTING_LESS)
    settings = offline.queues(plan.waiting, plan.queue) + offline.computing(plan.waiting, few)
    for queue in settings:
        yield queue.name, lambda queue=queue: offline.timed(programs.pool, queue)


def _one_cpu(plan: Plan, programs: Programs, cpus: list[int]) -> Iterator[tuple[str, Callable]]:
    where = Where(cpus[:1], cpus[1:])
    for cell in ALONE_CELLS:
        for shape in ALONE:
            yield (
                key(cell.name, shape.name),
                lambda cell=cell, shape=shape: matrix.sample(
                    programs, shape, cell, plan.length, where
                ),
            )


def _backlog(plan: Plan, programs: Programs, _cpus: list[int]) -> Iterator[tuple[str, Callable]]:
    for arm in backlog.arms():
        yield arm.name, lambda arm=arm: backlog.sample(programs, arm, plan.crowd)


def _company(plan: Plan, programs: Programs, cpus: list[int]) -> Iterator[tuple[str, Callable]]:
    for neighbours in (0, len(cpus)):
        for shape in company.SHAPES:
            yield (
                key(f"{neighbours} beside", shape.name),
                lambda shape=shape, neighbours=neighbours: company.measured(
                    programs, shape, neighbours, plan.length, cpus
                ),
            )


def _reuse(plan: Plan, programs: Programs, cpus: list[int]) -> Iterator[tuple[str, Callable]]:
    for cell in reuse.CELLS:
        for way in reuse.WAYS:
            for shape in reuse.SHAPES:
                yield (
                    key(cell.name, way, shape.name),
                    lambda shape=shape, cell=cell, way=way: reuse.measured(
                        programs, shape, cell, way, plan.length, cpus
                    ),
                )


def key(*names: str) -> str:
    """The name of something in the record."""
    return "; ".join(names)


def _misses(plan: Plan, programs: Programs) -> dict[str, dict]:
    """Once: what cachegrind counts is the same in every round."""
    if "queue" not in plan.parts:
        return {}
    valgrind = resolve.ensure(["valgrind"])["valgrind"]
    found = {}
    for queue in offline.queues(plan.waiting, plan.queue):
        found[queue.name] = offline.counted(valgrind, programs.pool, queue)
        progress.say("cachegrind", f"{queue.name}: {report.brief(found[queue.name])}")
    return found


def _programs(plan: Plan) -> Programs:
    server = plan.server
    if server is None:
        folder = builds.build(builds.SERVICES, ["corelane-server"], plan.profile)
        server = folder / "corelane-server"
    return Programs(server, builds.build(builds.BENCH, ["load-generator", "pool"], plan.profile))


def _described(plan: Plan) -> dict:
    return {
        "rounds": plan.rounds,
        "parts": plan.parts,
        "connections": plan.connections,
        "iterations": plan.iterations,
        "shapes": plan.shapes,
        "length": asdict(plan.length),
        "crowd": asdict(plan.crowd),
        "queue": plan.queue,
        "waiting": plan.waiting,
        "profile": plan.profile,
    }


def _versions() -> dict[str, str]:
    ours = builds.locked(builds.SERVICES)
    return {name: ours[name] for name in ("corelane", "hyper", "tokio")}


def _autogroup() -> str:
    try:
        return company.AUTOGROUP.read_text().strip()
    except FileNotFoundError:
        return "not in this kernel"
