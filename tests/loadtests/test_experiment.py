"""The harness of the benchmarks: rounds, record, report and command line, by a benchmark of two arms."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loadtests.bench.experiment import command
from loadtests.bench.experiment.page import Page, cell, verdict
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Stand, Task, chosen
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from stack import PATIENCE, REPOSITORY, eventually
from tools.errors import ToolError

pytestmark = pytest.mark.nightly


class Sorting(Experiment):
    """Counts what its arms are asked; `slow` costs twice what `fast` does, and one arm cannot run."""

    name, title, help = "sorting", "What sorting costs", "two arms"
    rounds, seconds, cpus = 3, 2.0, 1

    def __init__(self) -> None:
        self.measured: list[tuple[int, str, str]] = []

    def tasks(self, plan: Plan) -> list[Task]:
        return [
            {"arm": arm, "size": size} for arm in ("fast", "slow", "lost") for size in ("1", "2")
        ]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[Stand]:
        yield Stand(plan, (0,), facts={"found": 1}, versions={"sort": "1.0"})

    def measure(self, stand: Stand, task: Task, number: int) -> Row:
        if task["arm"] == "lost":
            raise ToolError("no such program")
        self.measured.append((number, task["arm"], task["size"]))
        cost = number * int(task["size"]) * (2 if task["arm"] == "slow" else 1)
        figures = {"requests": 10, "wrong": int(number == 2), "nested": {"p99": cost}}
        return {"cost": float(cost), **figures, "others_cores": 0.01, "stolen_cores": 0.0}

    def optional(self, task: Task) -> bool:
        return task["arm"] == "lost"

    def page(self, record: Record) -> Page:
        page = Page(self.title, record)
        page.points(page.quality())
        page.table(
            "arm",
            record.labels("arm"),
            ("cost", lambda arm: cell(record.values("cost", arm=arm, size="1"), 1)),
        )
        series = [
            Series(arm, [(int(s), record.values("cost", arm=arm, size=s)) for s in ("1", "2")])
            for arm in record.labels("arm")
        ]
        page.plot(Plot("Cost", [Panel(series, kind="lines"), Panel(series, kind="bars")]))
        return page


def run(experiment: Experiment, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command")
    command.add(commands, experiment)
    command.add_report(commands, {experiment.name: experiment})
    options = parser.parse_args(arguments)
    return options.run(options)


def test_a_run_leaves_a_record_of_which_the_report_can_be_made_again(tmp_path: Path) -> None:
    assert run(Sorting(), "sorting", "--out", str(tmp_path)) == 1, "there were wrong answers"
    record = Record.read(tmp_path / "bench-sorting.json")
    assert record.labels("arm") == ["fast", "slow"]
    assert record.missing == {"lost, 1": "no such program", "lost, 2": "no such program"}
    assert record.facts["found"] == 1
    assert record.plan["rounds"] == 3
    assert record.seconds > 0
    text = (tmp_path / "bench-sorting.md").read_text()
    assert "4 of 120 requests got a wrong answer or none" in text
    assert "| slow | 4.0 (2.0–6.0) |" in text
    assert "Not measured: lost, 1: no such program" in text
    picture = (tmp_path / "bench-sorting.svg").read_bytes()
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    again = tmp_path / "again"
    run(Sorting(), "report", str(tmp_path / "bench-sorting.json"), "--out", str(again))
    assert (again / "bench-sorting.md").read_text() == text
    assert (again / "bench-sorting.svg").read_bytes() == picture


def test_ratios_are_taken_within_a_round(tmp_path: Path) -> None:
    run(Sorting(), "sorting", "--out", str(tmp_path))
    record = Record.read(tmp_path / "bench-sorting.json")
    assert record.ratios("cost", {"arm": "slow"}, {"arm": "fast"}, size="2") == [2.0, 2.0, 2.0]
    assert record.ratios("nested.p99", {"size": "2"}, {"size": "1"}, arm="fast") == [2.0] * 3
    assert record.ratios("absent", {"arm": "slow"}, {"arm": "fast"}, size="1") == []
    assert record.values("nested.p99", arm="fast", size="2") == [2, 4, 6]


def test_each_round_measures_everything_in_an_order_of_its_own(tmp_path: Path) -> None:
    orders = []
    for _ in range(2):
        experiment = Sorting()
        run(experiment, "sorting", "--rounds", "4", "--out", str(tmp_path))
        orders.append(experiment.measured)
    by_round = [[task for n, *task in orders[0] if n == number] for number in range(1, 5)]
    assert all(sorted(each) == sorted(by_round[0]) for each in by_round)
    assert len({str(each) for each in by_round}) > 1
    assert orders[0] == orders[1], "the orders are seeded"


def test_tasks_are_chosen_by_any_label() -> None:
    tasks = Sorting().tasks(Plan(1))
    assert chosen(tasks, ()) == tasks
    assert chosen(tasks, ("slow",)) == [{"arm": "slow", "size": s} for s in ("1", "2")]
    assert chosen(tasks, ("slow", "fast", "2")) == [
        {"arm": "fast", "size": "2"},
        {"arm": "slow", "size": "2"},
    ]
    with pytest.raises(ToolError, match="--only quick: allowed are fast, lost, slow, 1, 2"):
        chosen(tasks, ("quick",))


def test_quick_is_one_short_round(tmp_path: Path) -> None:
    run(Sorting(), "sorting", "--quick", "--only", "fast", "--out", str(tmp_path))
    record = Record.read(tmp_path / "bench-sorting.json")
    assert {row["round"] for row in record.rows} == {1}
    assert record.plan["scale"] == Sorting.quick


def test_list_measures_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    experiment = Sorting()
    assert run(experiment, "sorting", "--list", "--only", "slow") == 0
    assert capsys.readouterr().out == "slow, 1\nslow, 2\n"
    assert experiment.measured == []


def test_what_was_measured_is_kept_when_a_run_fails(tmp_path: Path) -> None:
    class Failing(Sorting):
        def measure(self, stand: Stand, task: Task, number: int) -> Row:
            if number == 2:
                raise ToolError("the machine is gone")
            return super().measure(stand, task, number)

        def optional(self, task: Task) -> bool:
            return False

    with pytest.raises(ToolError, match="the machine is gone"):
        run(Failing(), "sorting", "--only", "fast", "--out", str(tmp_path))
    rows = json.loads((tmp_path / "bench-sorting.json").read_text())["rows"]
    assert len(rows) == 2


def test_rounds_go_on_until_it_is_enough() -> None:
    class Undecided(Sorting):
        def enough(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
            return sum(row["cost"] for row in rows) > 20

    experiment, kept = Undecided(), []

    def keep(found: list[Row]) -> list[Row]:
        kept.extend(found)
        return kept

    plan, tasks = Plan(1), [{"arm": "fast", "size": "2"}]
    command.run(experiment, plan, Stand(plan, (0,)), tasks, keep, {})
    assert [row["round"] for row in kept] == [1, 2, 3, 4, 5]


def test_tasks_that_go_together_are_measured_in_one_go() -> None:
    class Together(Sorting):
        together = ("arm",)
        at_once = 2

        def measure_group(self, stand: Stand, tasks: Sequence[Task], number: int) -> Iterator[Row]:
            groups.append([task["size"] for task in tasks])
            return super().measure_group(stand, tasks, number)

    groups: list[list[str]] = []
    plan, kept = Plan(1), []
    tasks = chosen(Together().tasks(plan), ("fast", "slow"))
    command.run(
        Together(), plan, Stand(plan, (0,)), tasks, lambda rows: kept.extend(rows) or kept, {}
    )
    assert groups == [["1", "2"], ["1", "2"]]
    assert len(kept) == 4


def test_the_median_decides_a_verdict() -> None:
    assert verdict([1.0, 1.1, 9.0], 1.15) == "meets the target of at most 1.15"
    assert verdict([1.0, 1.2, 1.3], 1.15) == "misses the target of at most 1.15"
    assert verdict([9.0, 10.5, 11.0], 10, least=True) == "meets the target of at least 10"


def descendants(parent: int) -> dict[int, str]:
    """The processes that a process started, and those started by them: pid and name."""
    names, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # proc(5): pid (name) state ppid ...
            before, _, after = stat.read_text().rpartition(")")
        except OSError:  # It has ended meanwhile.
            continue
        pid, _, name = before.partition(" (")
        names[int(pid)], parents[int(pid)] = name, int(after.split()[1])
    found = {parent}
    while more := {pid for pid, of in parents.items() if of in found} - found:
        found |= more
    return {pid: names[pid] for pid in found - {parent}}


MIXED = ["mixed", "--quick", "--only", "postgres"], {"postgres", "corelane-server"}
TUNED = (
    ["connections", "--only", "tuned", "--quick", "--rounds", "1000"],
    {"cat", "corelane-server"},
)
"""Arguments, and the processes that are to be under way; `cat` holds a network namespace."""


@pytest.mark.parametrize(("arguments", "names"), [MIXED, TUNED], ids=["mixed", "tuned"])
def test_what_a_benchmark_started_ends_with_it(
    arguments: list[str], names: set[str], binary: Path, tmp_path: Path
) -> None:
    argv = [sys.executable, "loadtests/bench", *arguments]
    argv += ["--server", binary, "--profile", "dev", "--out", tmp_path]
    null = subprocess.DEVNULL
    bench = subprocess.Popen(argv, cwd=REPOSITORY, stdout=null, stderr=null)

    def all_run() -> bool:
        assert bench.poll() is None, "it has ended before it was told to"
        return names <= set(descendants(bench.pid).values())

    try:
        # What it builds first takes its time on a new clone.
        eventually(all_run, patience=20 * PATIENCE)
        started = descendants(bench.pid)
    finally:
        bench.terminate()
    assert bench.wait(PATIENCE) == 130
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
