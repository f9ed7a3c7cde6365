"""All rounds of a run, in the network that it is started in."""

from collections.abc import Iterator

from loadtests.ladder import at_once, idle, slow
from loadtests.ladder.plan import Job
from tools import progress


def measure(job: Job) -> dict[str, list[dict]]:
    """The cells of each part; the rounds take turns with the order, so that no cell is always first."""
    plan = job.plan
    found: dict[str, list[dict]] = {part: [] for part in plan.parts}
    for number in range(1, plan.rounds + 1):
        for part in plan.parts:
            if number > plan.rounds_of(part):
                continue
            for cell in PARTS[part](job, number):
                found[part].append({"round": number, **cell})
                progress.say(f"{part} {number}", _brief(cell))
    return found


def _idle(job: Job, number: int) -> Iterator[dict]:
    for rung in job.plan.rungs:
        for path in _turned(job.plan.paths, number):
            yield {"path": path, **idle.rung(job, path, rung)}


def _slow(job: Job, number: int) -> Iterator[dict]:
    for manner in slow.MANNERS:
        for path in _turned(job.plan.paths, number):
            yield {"path": path, **slow.rung(job, path, manner)}


def _at_once(job: Job, number: int) -> Iterator[dict]:
    for target in _turned(at_once.targets(job.plan.paths), number):
        for cell in at_once.measure(job, target):
            yield {"target": target, **cell}


PARTS = {"idle": _idle, "slow": _slow, "at-once": _at_once}


def _turned(names: tuple[str, ...] | list[str], number: int) -> list[str]:
    return list(names) if number % 2 else list(names)[::-1]


def _brief(cell: dict) -> str:
    """One line while the run goes on."""
    if "target" in cell:
        times = cell["answer_ms"] or [0.0]
        return (
            f"{cell['target']}, {cell['connections']} connections {cell['come']}: p50 "
            f"{times[len(times) // 2]:.0f} ms, longest {times[-1]:.0f} ms, {cell['failed']} failed"
        )
    opened = cell["opened"]
    return (
        f"{cell['path']}, {cell['connections']:,} {cell.get('manner', 'idle')}: open after "
        f"{opened['seconds']:.2f} s, {opened['failed']} failed"
    )
