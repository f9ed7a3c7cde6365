"""The user's choices for a benchmark, and the state of a run."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Figures, Place, measured
from loadtests.bench.experiment.servers import Running
from tools.errors import ToolError

Task = dict[str, str]
"""Labels of one task that every round measures: {"proxy": "nginx"} or {"mix": "hello", "lanes":
"1"}.
"""

Row = dict[str, Any]
"""One sample: task labels, `round`, and values by name."""


@dataclass(frozen=True)
class Plan:
    rounds: int
    scale: float = 1.0
    """Length of every measured part, relative to its usual length."""
    quick: bool = False
    only: tuple[str, ...] = ()
    server: Path | None = None
    profile: str = "release"
    options: argparse.Namespace = field(default_factory=argparse.Namespace)
    """Options that only one benchmark has."""

    def seconds(self, usual: float, least: float = 0.0) -> float:
        return max(least, usual * self.scale)


@dataclass
class TestBed:
    """State of a run: programs, CPUs, and the processes that the benchmark starts once."""

    plan: Plan
    cpus: tuple[int, ...]
    programs: Programs = field(default_factory=Programs)
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts determined once per run and kept in the record: calibrations and rates."""
    versions: dict[str, str] = field(default_factory=dict)

    def place(self, *, first: bool = False) -> Place:
        return Place([self.cpus[1]], first)

    def load(
        self, process: Running, mode: str, place: Place | None = None, **options: Any
    ) -> Figures:
        """In an open loop, the generator gets priority, because it could not send in time
        otherwise.
        """
        place = place or self.place(first=mode == "open")
        return measured(process, self.programs.generator, place, mode, **options)


def chosen(tasks: list[Task], only: Sequence[str]) -> list[Task]:
    """Tasks selected by --only: a task must match one of the names for each label that they
    concern.
    """
    known = {label: {task[label] for task in tasks if label in task} for label in _labels(tasks)}
    everything = [name for values in known.values() for name in sorted(values)]
    if unknown := [name for name in only if name not in everything]:
        raise ToolError(f"--only {','.join(unknown)}: allowed are {', '.join(everything)}")
    wanted = {label: values & set(only) for label, values in known.items() if values & set(only)}
    return [
        task for task in tasks if all(task.get(label) in values for label, values in wanted.items())
    ]


def groups(tasks: list[Task], together: tuple[str, ...] | None) -> list[list[Task]]:
    if together is None:
        return [[task] for task in tasks]
    found: dict[tuple, list[Task]] = {}
    for task in tasks:
        found.setdefault(tuple(task[label] for label in together), []).append(task)
    return list(found.values())


def _labels(tasks: Iterable[Task]) -> dict[str, None]:
    return {label: None for task in tasks for label in task}
