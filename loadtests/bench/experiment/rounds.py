"""Measures the tasks in interleaved rounds."""

import random
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from loadtests.bench.experiment.plan import Experiment, Plan, Row, Task, groups
from tools import progress
from tools.errors import ToolError


def run(
    experiment: Experiment,
    plan: Plan,
    stand: Any,
    tasks: list[Task],
    keep: Callable[[Iterable[Row]], list[Row]],
    missing: dict[str, str],
) -> None:
    """Measures until it is enough. Each round has another order, so that none is always the first.

    `keep` receives the rows of every group and returns all rows to date; `missing` gets the optional tasks
    that could not be measured, which later rounds leave out.
    """
    waiting, number, rows = groups(tasks, experiment.together), 0, []
    while waiting:
        number += 1

        def group(of: list[Task], number: int = number) -> list[Row]:
            return _measured(experiment, plan, stand, of, number, missing)

        for found in _each(group, random.Random(number).sample(waiting, len(waiting)), experiment):
            rows = keep(found)
        waiting = [of for of in waiting if _group(of, experiment) not in missing]
        if experiment.enough(rows, number, plan):
            return
    raise ToolError(f"{experiment.name}: nothing could be measured: {'; '.join(missing.values())}")


def _each(
    group: Callable[[list[Task]], list[Row]], order: list[list[Task]], experiment: Experiment
) -> Iterable[list[Row]]:
    """The rows of each group, as they are ready."""
    if experiment.at_once == 1:
        yield from map(group, order)
        return
    with ThreadPoolExecutor(experiment.at_once) as pool:
        jobs = [pool.submit(group, of) for of in order]
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
            yield from (job.result() for job in jobs if job.done())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            experiment.abort()
            raise


def _measured(
    experiment: Experiment,
    plan: Plan,
    stand: Any,
    tasks: list[Task],
    number: int,
    missing: dict[str, str],
) -> list[Row]:
    rows = []
    try:
        for row in experiment.measure_group(stand, tasks, number):
            rows.append({**row, "round": number})
            name = _name({label: row[label] for label in tasks[0]})
            progress.say(f"{number}/{plan.rounds}", f"{name}: {experiment.brief(row)}")
    except ToolError as error:
        if not experiment.optional(tasks[0]):
            raise
        missing[_group(tasks, experiment)] = str(error)
        progress.say("missing", f"{_group(tasks, experiment)}: {error}")
    return rows


def _group(tasks: list[Task], experiment: Experiment) -> str:
    """What tasks that are measured in one go are called."""
    return _name({label: tasks[0][label] for label in experiment.together or tasks[0]})


def _name(task: Task) -> str:
    return ", ".join(map(str, task.values()))
