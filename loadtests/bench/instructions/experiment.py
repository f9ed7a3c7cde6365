"""`instructions`: counts the instructions per request on each code path, and checks them against
the committed table.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from images import platforms, rust
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Plan, Row, Task, TestBed
from loadtests.bench.experiment.record import Record
from loadtests.bench.instructions import rows
from loadtests.bench.instructions.rows import LIMIT, ROWS, Budget
from loadtests.usage import positive
from tools import table, versions

REQUESTS = 1_000
"""Counted requests: the difference between the longer and the shorter run."""

TRIES = 3

BY_NAME = {row.name: row for row in ROWS}


@dataclass
class Counting(TestBed):
    counter: rows.Programs | None = None
    known: Budget | None = None
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def within(self, name: str) -> bool:
        found = self.rows.get(name)
        return bool(found) and self.known is not None and self.known.fits(name, _count(found))


class Instructions(Experiment):
    """Runs each row twice under callgrind; the longer run contains this many additional requests."""

    name = "instructions"
    title = "Instructions of a request"
    help = "instructions per request by callgrind, as a table or checked against the committed one"
    rounds = 5
    quick = 0.05
    cpus = 1
    at_once = 2

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help=f"fail if a row exceeds {LIMIT} times the committed instructions in each of {TRIES} attempts",
        )
        parser.add_argument("--update", action="store_true", help="write the counts to the table")
        parser.add_argument(
            "--budget", type=Path, default=rows.FILE, metavar="FILE", help="compare with this table"
        )
        parser.add_argument(
            "--requests", type=positive, metavar="N", help=f"requests to count; default: {REQUESTS}"
        )

    def unfit(self) -> str:
        return rows.unfit()

    def tasks(self, plan: Plan) -> list[Task]:
        return [{"row": name} for name in BY_NAME]

    @contextmanager
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[Counting]:
        server = plan.server or rust.build(rust.SERVER, platforms.native())
        with rows.with_tools(server) as programs:
            bed = Counting(plan, (), counter=programs)
            if plan.options.check:
                bed.known = Budget.read(plan.options.budget)
            bed.facts["requests"] = plan.options.requests or round(REQUESTS * plan.scale)
            valgrind = versions.remembered(programs.valgrind, table.find("valgrind"))
            bed.versions = {**rows.toolchain(), "valgrind": valgrind}
            yield bed

    def measure(self, bed: Counting, task: Task, number: int) -> list[Row]:
        name, requests = task["row"], bed.facts["requests"]
        if bed.within(name):
            return []
        short, long = (
            rows.instructions(BY_NAME[name], bed.counter, length)
            for length in (rows.SHORT, rows.SHORT + requests)
        )
        row = {"short": short, "long": long, "counted": requests}
        bed.rows.setdefault(name, []).append(row)
        return [row]

    def enough(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        if not plan.options.check:
            return number >= plan.rounds
        known, names = Budget.read(plan.options.budget), {row["row"] for row in rows}
        fit = all(known.fits(name, _count([r for r in rows if r["row"] == name])) for name in names)
        return fit or number >= min(plan.rounds, TRIES)

    def brief(self, row: Row) -> str:
        return f"{_count([row]):,} instructions"

    def ended(self, record: Record) -> int:
        options, counts = record.plan["options"], _counts(record)
        file = Path(options["budget"])
        if options["update"]:
            kept = {name: record.versions[name] for name in rows.toolchain()}
            Budget(kept, counts).write(file)
        return 1 if options["check"] and _over(record, Budget.read(file)) else 0

    def page(self, record: Record) -> Page:
        page = Page(self.title, record, CHECKED)
        if record.plan["options"]["check"]:
            _compare(page, record, Budget.read(Path(record.plan["options"]["budget"])))
            return page
        counts = _counts(record)
        page.table(
            "row",
            list(counts),
            ("what is asked", lambda name: BY_NAME[name].what),
            ("instructions", lambda name: f"{counts[name]:,}"),
            ("spread", lambda name: f"{_spread(record, name):.2f}%"),
        )
        return page


def _count(samples: Sequence[Row]) -> int:
    short, long = ([row[length] for row in samples] for length in ("short", "long"))
    return rows.per_request(short, long, samples[0]["counted"])


def _counts(record: Record) -> dict[str, int]:
    return {name: _count(record.select(row=name)) for name in record.labels("row")}


def _spread(record: Record, name: str) -> float:
    found = [_count([row]) for row in record.select(row=name)]
    return 100 * (max(found) - min(found)) / min(found)


def _over(record: Record, known: Budget) -> list[str]:
    """Rows above their limit; empty if the compiler differs, because instruction counts then differ
    too.
    """
    if record.versions["rustc"] != known.toolchain["rustc"]:
        return []
    return [name for name, found in _counts(record).items() if not known.fits(name, found)]


def _compare(page: Page, record: Record, known: Budget) -> None:
    counts, committed = _counts(record), known.instructions
    page.table(
        "row",
        list(counts),
        ("committed", lambda name: f"{committed[name]:,}" if name in committed else ""),
        ("now", lambda name: f"{counts[name]:,}"),
        (
            "ratio",
            lambda name: (
                f"{counts[name] / committed[name]:.3f}" if name in committed else "not committed"
            ),
        ),
    )
    if other := known.other_toolchain(record.versions):
        page.text(f"Built with another toolchain: {', '.join(other)}.")
    if record.versions["rustc"] != known.toolchain["rustc"]:
        page.text(
            "Another compiler generates other instructions, so the counts are shown but not judged."
        )
    if over := _over(record, known):
        page.text(
            f"More than {LIMIT} times the committed count: {', '.join(over)}. If you accept these counts, run make bench "
            'BENCH="instructions --update" and commit the new table with your change.'
        )


CHECKED = (
    "`make check-instructions` repeats the count in CI and fails if a row exceeds "
    f"{LIMIT} times the committed count. If you accept the new count, commit the new table with your change."
)
