"""The command line of every benchmark, and the run itself."""

import argparse
import os
import random
import resource
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from loadtests.bench.experiment import page as pages
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.plan import Plan, Row, Task, TestBed, chosen, groups
from loadtests.bench.experiment.record import Record
from loadtests.usage import OUT, positive, program
from tools import progress
from tools.errors import ToolError


def run(
    experiment: Experiment,
    plan: Plan,
    bed: TestBed,
    tasks: list[Task],
    keep: Callable[[Iterable[Row]], list[Row]],
    missing: dict[str, str],
) -> None:
    """Measures rounds until the benchmark has enough. Each round changes the order, so that no task
    is always first.

    `keep` receives the rows of every group and returns all rows to date. `missing` collects the
    optional tasks that could not be measured, which later rounds skip.
    """
    waiting, number, rows = groups(tasks, experiment.together), 0, []
    while waiting:
        number += 1

        def group(of: list[Task], number: int = number) -> list[Row]:
            return _measured(experiment, plan, bed, of, number, missing)

        for found in _each(group, random.Random(number).sample(waiting, len(waiting)), experiment):
            rows = keep(found)
        waiting = [of for of in waiting if _group(of, experiment) not in missing]
        if experiment.enough(rows, number, plan):
            return
    raise ToolError(f"{experiment.name}: nothing could be measured: {'; '.join(missing.values())}")


def _each(
    group: Callable[[list[Task]], list[Row]], order: list[list[Task]], experiment: Experiment
) -> Iterable[list[Row]]:
    """Yields the rows of each group as they become ready. Groups that need the machine alone come
    last.
    """
    alone = [of for of in order if experiment.at_once == 1 or experiment.alone(of)]
    order = [of for of in order if of not in alone]
    yield from _at_once(group, order, experiment)
    yield from map(group, alone)


def _at_once(
    group: Callable[[list[Task]], list[Row]], order: list[list[Task]], experiment: Experiment
) -> Iterable[list[Row]]:
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
    bed: TestBed,
    tasks: list[Task],
    number: int,
    missing: dict[str, str],
) -> list[Row]:
    rows = []
    try:
        for row in experiment.measure_group(bed, tasks, number):
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
    return _name({label: tasks[0][label] for label in experiment.together or tasks[0]})


def _name(task: Task) -> str:
    return ", ".join(map(str, task.values()))


PROFILE = "PROFILE"

COMMON = ("rounds", "quick", "only", "list", "seconds", "server", "profile", "out")


def add(commands: argparse._SubParsersAction, experiment: Experiment) -> None:
    parser = commands.add_parser(experiment.name, help=experiment.help, description=experiment.help)
    parser.add_argument(
        "--rounds",
        type=positive,
        metavar="N",
        help=f"default: {experiment.rounds}, with --quick 1",
    )
    parser.add_argument("--quick", action="store_true", help="a single short round")
    parser.add_argument(
        "--only",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="NAMES",
        help="comma-separated labels of the tasks to run; see --list",
    )
    parser.add_argument("--list", action="store_true", help="print the tasks without running them")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help=f"seconds per measurement; default: {experiment.seconds:g}; other times scale with it",
    )
    parser.add_argument(
        "--server", type=program, metavar="PROGRAM", help="another build of corelane-server"
    )
    parser.add_argument(
        "--profile",
        default=os.environ.get(PROFILE, "release"),
        help=f"cargo's profile of all builds; default: {PROFILE}, else release",
    )
    parser.add_argument(
        "--out", type=Path, default=OUT, metavar="FOLDER", help=f"default: {_of(OUT)}"
    )
    experiment.add_options(parser)
    parser.set_defaults(run=lambda options: _run(experiment, options))


def add_report(commands: argparse._SubParsersAction, known: Mapping[str, Experiment]) -> None:
    parser = commands.add_parser("report", help="regenerate the report of a record")
    parser.add_argument(
        "file", type=Path, help="a record, such as loadtests/out/bench-gateway.json"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: the record's folder")

    def report(options: argparse.Namespace) -> int:
        record = Record.read(options.file)
        experiment = known[record.benchmark]
        _report(experiment, record, options.out or options.file.parent)
        return 1 if experiment.failed(record) else 0

    parser.set_defaults(run=report)


def _run(experiment: Experiment, options: argparse.Namespace) -> int:
    plan = _plan(experiment, options)
    tasks = chosen(experiment.tasks(plan), plan.only)
    if options.list:
        print("\n".join(", ".join(task.values()) for task in tasks))
        return 0
    if reason := experiment.unfit():
        progress.say(experiment.name, f"skipped: {reason}")
        return 0
    record = _record(experiment, plan, tasks, options.out)
    _report(experiment, record, options.out)
    return experiment.ended(record)


def _plan(experiment: Experiment, options: argparse.Namespace) -> Plan:
    scale = experiment.quick if options.quick else 1.0
    if options.seconds:
        scale = options.seconds / experiment.seconds
    more = {name: value for name, value in vars(options).items() if name not in COMMON}
    del more["run"], more["command"]
    return Plan(
        rounds=options.rounds or (1 if options.quick else experiment.rounds),
        scale=scale,
        quick=options.quick,
        only=options.only,
        server=options.server,
        profile=options.profile,
        options=argparse.Namespace(**more),
    )


def _record(experiment: Experiment, plan: Plan, tasks: list[Task], out: Path) -> Record:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < experiment.cpus:
        raise ToolError(f"{experiment.name} needs {experiment.cpus} CPUs, and may use {len(cpus)}")
    if experiment.root and os.geteuid() != 0:
        raise ToolError(f"{experiment.name} makes network namespaces, which only root may")
    # Servers and generators inherit the limit: each side of a connection uses a descriptor.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    record = Record.begin(experiment.name, plan)
    record.facts["order"] = {
        label: list(dict.fromkeys(task[label] for task in tasks if label in task))
        for label in dict.fromkeys(label for task in tasks for label in task)
    }
    file = out / f"{pages.stem(record)}.json"

    def keep(found: list[Row]) -> list[Row]:
        record.rows += found
        record.write(file)
        return record.rows

    with experiment.test_bed(plan, tasks) as bed:
        record.cpus, record.versions = list(bed.cpus), bed.versions
        record.facts |= bed.facts
        run(experiment, plan, bed, tasks, keep, record.missing)
    record.end()
    record.write(file)
    progress.say("record", str(file))
    return record


def _report(experiment: Experiment, record: Record, folder: Path) -> None:
    page = experiment.page(record)
    print(page.markdown)
    for file in page.write(folder):
        progress.say("report", str(file))


def _of(folder: Path) -> str:
    return "/".join(folder.parts[-2:])
