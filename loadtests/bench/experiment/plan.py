"""What a benchmark fills in, and what its user chooses."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.errors import ToolError

if TYPE_CHECKING:
    from loadtests.bench.experiment.page import Page
    from loadtests.bench.experiment.record import Record

Task = dict[str, str]
"""One thing that every round measures, by its labels: {"proxy": "nginx"} or {"mix": "hello", "lanes": "1"}."""

Row = dict[str, Any]
"""One sample: the labels of its task, `round`, and figures by name."""


@dataclass(frozen=True)
class Plan:
    """What the command line chose."""

    rounds: int
    scale: float = 1.0
    """Length of every measured part, in its usual one."""
    quick: bool = False
    only: tuple[str, ...] = ()
    server: Path | None = None
    """Another build of corelane-server."""
    profile: str = "release"
    options: argparse.Namespace = field(default_factory=argparse.Namespace)
    """Those of one benchmark alone."""

    def seconds(self, usual: float, least: float = 0.0) -> float:
        """The length of a part that usually takes so long."""
        return max(least, usual * self.scale)


@dataclass
class Stand:
    """What lasts for a run: programs, CPUs and whatever the benchmark starts once."""

    plan: Plan
    cpus: tuple[int, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    """Found once for a run and kept in the record: calibrations, rates."""
    versions: dict[str, str] = field(default_factory=dict)


class Experiment:
    """A benchmark: says what is measured and how it is reported; the harness does the rest."""

    name: str
    title: str
    help: str
    rounds = 5
    seconds = 1.0
    """Usual length of the main measured part: what --seconds is compared with."""
    quick = 0.2
    """The scale of --quick, which also makes one round."""
    cpus = 2
    """So many are needed."""
    root = False
    together: tuple[str, ...] | None = None
    """Tasks that are equal in these labels are measured in one go; None for each alone."""
    at_once = 1
    """Groups that are measured at the same time; more than 1 only where nobody's CPU is the figure."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Adds options of its own; they arrive in `plan.options`."""

    def tasks(self, plan: Plan) -> list[Task]:
        """Everything that a round measures, before --only; nothing is started or built here."""
        raise NotImplementedError

    def stand(self, plan: Plan, tasks: Sequence[Task]) -> AbstractContextManager[Stand]:
        """Builds and starts what lasts for the run."""
        return nullcontext(Stand(plan, ()))

    def measure(self, stand: Any, task: Task, number: int) -> Iterable[Row] | Row:
        """Measures a task in a round: one row, or several with more labels."""
        raise NotImplementedError

    def measure_group(self, stand: Any, tasks: Sequence[Task], number: int) -> Iterator[Row]:
        """Measures tasks that go together; the rows have their labels."""
        for task in tasks:
            rows = self.measure(stand, task, number)
            yield from ({**task, **row} for row in ([rows] if isinstance(rows, dict) else rows))

    def enough(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        """Whether to stop after this round; by default after the planned ones."""
        return number >= plan.rounds

    def optional(self, task: Task) -> bool:
        """Whether the run continues without a task that cannot be measured. The report names it."""
        return False

    def alone(self, tasks: Sequence[Task]) -> bool:
        """Whether a group is measured alone, where others are measured at the same time."""
        return False

    def abort(self) -> None:
        """Ends concurrent measurements, so that waits for them fail."""

    def brief(self, row: Row) -> str:
        """A short summary of a row, for progress messages."""
        return ""

    def page(self, record: "Record") -> "Page":
        """The report."""
        raise NotImplementedError

    def failed(self, record: "Record") -> int:
        """Requests with a wrong answer or none; the exit status is 1 if there are any."""
        return sum(row.get("wrong", 0) for row in record.rows)

    def unfit(self) -> str:
        """Why this machine cannot measure it, if so: the command says that and ends well."""
        return ""

    def ended(self, record: "Record") -> int:
        """What follows the report of a run; the exit status."""
        return 1 if self.failed(record) else 0


def chosen(tasks: list[Task], only: Sequence[str]) -> list[Task]:
    """The tasks that --only names: of each label that has any of the names, those."""
    known = {label: {task[label] for task in tasks if label in task} for label in _labels(tasks)}
    everything = [name for values in known.values() for name in sorted(values)]
    if unknown := [name for name in only if name not in everything]:
        raise ToolError(f"--only {','.join(unknown)}: allowed are {', '.join(everything)}")
    wanted = {label: values & set(only) for label, values in known.items() if values & set(only)}
    return [
        task for task in tasks if all(task.get(label) in values for label, values in wanted.items())
    ]


def groups(tasks: list[Task], together: tuple[str, ...] | None) -> list[list[Task]]:
    """The tasks that are measured in one go."""
    if together is None:
        return [[task] for task in tasks]
    found: dict[tuple, list[Task]] = {}
    for task in tasks:
        found.setdefault(tuple(task[label] for label in together), []).append(task)
    return list(found.values())


def _labels(tasks: Iterable[Task]) -> dict[str, None]:
    return {label: None for task in tasks for label in task}
