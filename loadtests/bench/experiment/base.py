"""What a benchmark fills in; the harness does the rest."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Plan, Row, Task, TestBed
from loadtests.bench.experiment.record import Record


class Experiment:
    """A benchmark: what is measured, and how it is reported."""

    name: str
    title: str
    help: str
    lead = ""
    """Where the method and the conclusions are."""
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

    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> AbstractContextManager[TestBed]:
        """Builds and starts what lasts for the run."""
        return nullcontext(TestBed(plan, ()))

    def measure(self, bed: Any, task: Task, number: int) -> Iterable[Row] | Row:
        """Measures a task in a round: one row, or several with more labels."""
        raise NotImplementedError

    def measure_group(self, bed: Any, tasks: Sequence[Task], number: int) -> Iterator[Row]:
        """Measures tasks that go together; the rows have their labels."""
        for task in tasks:
            rows = self.measure(bed, task, number)
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

    def verdicts(self, record: Record) -> Iterable[str]:
        """Sentences on the targets."""
        return ()

    def report(self, page: Page, record: Record) -> None:
        """Adds tables and pictures."""
        raise NotImplementedError

    def page(self, record: Record) -> Page:
        """The whole report."""
        page = Page(self.title, record, self.lead)
        page.points([*self.verdicts(record), *page.quality()])
        self.report(page, record)
        return page

    def failed(self, record: Record) -> int:
        """Requests with a wrong answer or none; the exit status is 1 if there are any."""
        return sum(row.get("wrong", 0) for row in record.rows)

    def unfit(self) -> str:
        """Why this machine cannot measure it, if so: the command says that and ends well."""
        return ""

    def ended(self, record: Record) -> int:
        """What follows the report of a run; the exit status."""
        return 1 if self.failed(record) else 0
