"""`compare`: whether this tree is slower than another commit."""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from random import Random

from loadtests.bench.compare import builds, report, verdict
from loadtests.bench.compare.builds import Build, build, same
from loadtests.bench.compare.stand import (
    BUILDS,
    LOAD,
    LOOKS,
    MARGINS,
    MEASURES,
    WORK_MS,
    CompareStand,
    Load,
    Measure,
    Round,
    Slice,
    differences,
    measured_loop,
    started,
)
from loadtests.bench.compare.verdict import Look
from loadtests.bench.experiment import builds as programs
from loadtests.bench.experiment import servers
from loadtests.bench.experiment.generator import SLOW_SHARE, calibrate
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Task
from loadtests.bench.experiment.record import Record, merged
from loadtests.bench.options import program
from tools import progress
from tools.errors import ToolError

SLOWER = 99
"""Exit status, as of a threshold that does not hold."""


class Compare(Experiment):
    """Both builds alternately, in rounds until a verdict."""

    name = "compare"
    title = "Comparison of two commits"
    help = "whether this tree is slower than another commit"
    rounds = LOOKS[-1]
    seconds = 0.25
    together = ("path",)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("base", type=builds.commit, help="a commit, branch or tag")
        parser.add_argument(
            "--margin",
            type=_margins,
            default=MARGINS,
            metavar="KIND=PERCENT[,...]",
            help="how much slower does not matter; default: "
            + ",".join(f"{kind}={percent:g}" for kind, percent in MARGINS.items()),
        )
        parser.add_argument(
            "--seed", type=int, default=1, metavar="N", help="of the order of both builds"
        )
        parser.add_argument(
            "--base-server", type=program, metavar="PROGRAM", help="another server as base's"
        )
        parser.add_argument(
            "--allow-undecided", action="store_true", help="exit status 0 when that is the verdict"
        )

    def tasks(self, plan: Plan) -> list[Task]:
        places = dict.fromkeys((measure.path, measure.loop) for measure in MEASURES)
        return [{"path": path, "loop": loop} for path, loop in places]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[CompareStand]:
        measures = chosen(tasks)
        least = verdict.fewest_rounds(len(measures), len(looks(plan.rounds)))
        if plan.rounds < least:
            text = f"{plan.rounds} cannot show that it is slower: that takes {least}"
            progress.say("rounds", text)
        with ExitStack() as stack:
            found = _builds(plan, stack, any(task["path"] == "gateway" for task in tasks))
            stand = CompareStand(
                plan,
                servers.first_cpus(2),
                builds=found,
                peers=programs.build(["load-generator"], plan.profile),
                closed=plan.seconds(self.seconds),
            )
            if any(task["loop"] == "open" for task in tasks):
                stand.load = _load(stand)
            stand.facts = {
                **{name: one.title for name, one in found.items()},
                "same": same(*found.values()),
                "load": stand.load and asdict(stand.load),
            }
            yield stand

    def measure_group(
        self, stand: CompareStand, tasks: Sequence[Task], number: int
    ) -> Iterator[Row]:
        path = tasks[0]["path"]
        draw = Random(f"{stand.plan.options.seed} {number} {path}")
        with started(stand, path, draw) as asked:
            for task in tasks:
                slices = measured_loop(stand, asked, task["loop"], number, draw)
                _require_right_answers(path, slices)
                yield {**task, **merged(slices), "slices": slices}

    def enough(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        if number not in looks(plan.rounds):
            return False
        return number == plan.rounds or look(rows, plan.options.margin, plan.rounds).decided

    def brief(self, row: Row) -> str:
        done = [Slice(one["build"], row["path"], row["loop"], one) for one in row["slices"]]
        costs = differences(chosen([row]), [done])
        return ", ".join(f"{name} {math.exp(one):.3f}" for name, (one,) in costs.items())

    def ended(self, record: Record) -> int:
        found = _look_of(record).verdict
        if found == verdict.SLOWER:
            return SLOWER
        # Undecided is neither "slower" nor "no slower".
        allowed = record.plan["options"]["allow_undecided"]
        return 1 if found == verdict.UNDECIDED and not allowed else 0

    def page(self, record: Record) -> Page:
        measures = chosen(record.rows)
        return report.page(self.title, record, measures, rounds_of(record.rows), _look_of(record))


def chosen(tasks: Sequence[Mapping]) -> list[Measure]:
    """The measures of these paths and loops."""
    places = {(task["path"], task["loop"]) for task in tasks}
    return [measure for measure in MEASURES if (measure.path, measure.loop) in places]


def looks(rounds: int) -> tuple[int, ...]:
    """After which rounds there is a verdict."""
    return LOOKS if rounds == LOOKS[-1] else (rounds,)


def rounds_of(rows: Sequence[Row]) -> list[Round]:
    """The slices of each round."""
    found: dict[int, list[Slice]] = {}
    for row in rows:
        slices = (Slice(one["build"], row["path"], row["loop"], one) for one in row["slices"])
        found.setdefault(row["round"], []).extend(slices)
    return list(found.values())


def look(rows: Sequence[Row], margins: Mapping[str, float], rounds: int) -> Look:
    """The verdict on the rounds until now."""
    measures = chosen(rows)
    by_measure = {measure.name: margins[measure.kind] for measure in measures}
    return verdict.look(differences(measures, rounds_of(rows)), by_measure, len(looks(rounds)))


def _look_of(record: Record) -> Look:
    return look(record.rows, record.plan["options"]["margin"], record.plan["rounds"])


def _builds(plan: Plan, stack: ExitStack, through_gateway: bool) -> dict[str, Build]:
    by_name = {
        "base": (stack.enter_context(builds.base(plan.options.base)), plan.options.base_server),
        "head": (builds.head(), plan.server),
    }
    return {
        name: build(name, tree, server, plan.profile, through_gateway=through_gateway)
        for name, (tree, server) in by_name.items()
    }


def _load(stand: CompareStand) -> Load:
    """The same for both builds, and a rate that the slower one carries."""
    works = [calibrate(stand.programs(name), stand.cpus) for name in BUILDS]
    ops = works[0].ops(WORK_MS)
    costs = (
        SLOW_SHARE * ops / work.ops_per_ms * 1e3 + (1 - SLOW_SHARE) * work.hello_us
        for work in works
    )
    return Load(ops, round(LOAD * 1e6 / max(costs), 1))


def _require_right_answers(path: str, slices: Sequence[Row]) -> None:
    """Nothing can be said of a build that does not answer."""
    for one in slices:
        if one["wrong"]:
            raise ToolError(
                f"{one['build']}, {path}: {one['wrong']} of {one['requests']} requests got a wrong "
                f"answer or none ({', '.join(one['faults'])})"
            )


def _margins(text: str) -> dict[str, float]:
    found = dict(MARGINS)
    for part in text.split(","):
        kind, _, percent = part.partition("=")
        try:
            found[kind], known = float(percent), kind in MARGINS
        except ValueError:
            known = False
        if not known or not 0 < found[kind] < 1000:
            allowed = ", ".join(MARGINS)
            raise argparse.ArgumentTypeError(f"{part}: give KIND=PERCENT; kinds are {allowed}")
    return found
