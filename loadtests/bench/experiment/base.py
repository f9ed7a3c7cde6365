"""Interface of a benchmark; the harness does the rest."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Plan, Row, Task, TestBed
from loadtests.bench.experiment.record import Record


class Experiment:
    name: str
    title: str
    help: str
    lead = ""
    rounds = 5
    seconds = 1.0
    """Usual length of the main measured part, which --seconds is relative to."""
    quick = 0.2
    cpus = 2
    root = False
    together: tuple[str, ...] | None = None
    """Tasks with equal values of these labels form a group; None measures each separately."""
    at_once = 1
    """Groups measured concurrently; must be 1 if CPU time is measured."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Adds the benchmark's own options, which arrive in `plan.options`."""

    def tasks(self, plan: Plan) -> list[Task]:
        """Tasks of a round, before --only applies. Does not start or build anything."""
        raise NotImplementedError

    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> AbstractContextManager[TestBed]:
        return nullcontext(TestBed(plan, ()))

    def measure(self, bed: Any, task: Task, number: int) -> Iterable[Row] | Row:
        """Measures a task in a round; returns one row, or several with additional labels."""
        raise NotImplementedError

    def measure_group(self, bed: Any, tasks: Sequence[Task], number: int) -> Iterator[Row]:
        for task in tasks:
            rows = self.measure(bed, task, number)
            yield from ({**task, **row} for row in ([rows] if isinstance(rows, dict) else rows))

    def enough(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        """Whether to stop after this round; by default, a run stops after the planned number of
        rounds."""
        return number >= plan.rounds

    def optional(self, task: Task) -> bool:
        """Whether the run continues if this task cannot be measured; the report then names the
        task.
        """
        return False

    def alone(self, tasks: Sequence[Task]) -> bool:
        """Whether a group needs exclusive use of the machine."""
        return False

    def abort(self) -> None:
        """Ends concurrent measurements, so that waits for them fail."""

    def brief(self, row: Row) -> str:
        return ""

    def verdicts(self, record: Record) -> Iterable[str]:
        return ()

    def report(self, page: Page, record: Record) -> None:
        raise NotImplementedError

    def page(self, record: Record) -> Page:
        page = Page(self.title, record, self.lead)
        page.points([*self.verdicts(record), *page.quality()])
        self.report(page, record)
        return page

    def failed(self, record: Record) -> int:
        """Requests with a wrong response or without a response; if there are any, the exit status
        is 1."""
        return sum(row.get("wrong", 0) for row in record.rows)

    def unfit(self) -> str:
        """Reason to skip on this machine, or "": printed, exit status 0."""
        return ""

    def ended(self, record: Record) -> int:
        """Runs after the report; returns the exit status."""
        return 1 if self.failed(record) else 0
