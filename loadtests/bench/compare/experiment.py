"""`compare`: whether this tree is slower than another commit."""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from random import Random

from loadtests.bench.compare import builds, verdict
from loadtests.bench.compare.builds import build, same
from loadtests.bench.compare.test_bed import (
    BUILDS,
    MARGINS,
    MEASURES,
    CompareBed,
    Load,
    Measure,
    slices,
    started,
)
from loadtests.bench.compare.verdict import Finding, Look
from loadtests.bench.experiment import builds as programs
from loadtests.bench.experiment import servers
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import SLOW_SHARE, calibrate
from loadtests.bench.experiment.page import Page, middle
from loadtests.bench.experiment.plan import Plan, Row, Task
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record, merged
from loadtests.usage import program
from tools import progress
from tools.errors import ToolError

SLOWER = 99

LOOKS = (10, 15, 20)
"""Rounds with an intermediate verdict; by default only the last."""

WORK_MS = 1.0
"""Lane time of an expensive request in the open loop, in milliseconds."""

LOAD = 1 / 3
"""Load of the open loop as a share of a saturated lane. Cheap requests usually find the lane free,
but not at the p99.
"""


class Compare(Experiment):
    name = "compare"
    title = "Comparison of two commits"
    help = "tests whether this tree is slower than another commit"
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
            help="tolerated slowdown; default: "
            + ",".join(f"{kind}={percent:g}" for kind, percent in MARGINS.items()),
        )
        parser.add_argument(
            "--seed",
            type=int,
            default=1,
            metavar="N",
            help="random seed for the order of the builds",
        )
        parser.add_argument(
            "--base-server", type=program, metavar="PROGRAM", help="use this server for the base"
        )
        parser.add_argument(
            "--allow-undecided", action="store_true", help="exit with 0 if the result is undecided"
        )

    def tasks(self, plan: Plan) -> list[Task]:
        places = dict.fromkeys((measure.path, measure.loop) for measure in MEASURES)
        return [{"path": path, "loop": loop} for path, loop in places]

    @contextmanager
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[CompareBed]:
        least = verdict.fewest_rounds(len(_measures(tasks)), len(looks(plan.rounds)))
        if plan.rounds < least:
            text = f"{plan.rounds} cannot show that it is slower: that takes {least}"
            progress.say("rounds", text)
        trees = {"base": plan.options.base_server, "head": plan.server}
        gateway = any(task["path"] == "gateway" for task in tasks)
        with ExitStack() as stack:
            base = stack.enter_context(builds.base(plan.options.base))
            found = {
                name: build(name, tree, trees[name], plan.profile, through_gateway=gateway)
                for name, tree in (("base", base), ("head", builds.head()))
            }
            generator = Programs(peers=programs.build(["load-generator"], plan.profile))
            bed = CompareBed(plan, servers.first_cpus(2), generator, builds=found)
            bed.closed = plan.seconds(self.seconds)
            if any(task["loop"] == "open" for task in tasks):
                bed.open = _load(bed)
            bed.facts = {
                **{name: one.title for name, one in found.items()},
                "same": same(*found.values()),
                "load": bed.open and asdict(bed.open),
            }
            yield bed

    def measure_group(self, bed: CompareBed, tasks: Sequence[Task], number: int) -> Iterator[Row]:
        path = tasks[0]["path"]
        draw = Random(f"{bed.plan.options.seed} {number} {path}")
        with started(bed, path, draw) as asked:
            for task in tasks:
                found = slices(bed, asked, task["loop"], number, draw)
                for one in found:
                    # A build that does not respond cannot be judged.
                    if one["wrong"]:
                        raise ToolError(
                            f"{one['build']}, {path}: {one['wrong']} of {one['requests']} requests got a wrong "
                            f"answer or none ({', '.join(one['faults'])})"
                        )
                yield {**task, **merged(found), "slices": found}

    def enough(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        if number not in looks(plan.rounds):
            return False
        return number == plan.rounds or look(rows, plan.options.margin, plan.rounds).decided

    def brief(self, row: Row) -> str:
        costs = {one.name: math.exp(one.difference(row)) for one in _measures([row])}
        return ", ".join(f"{name} {cost:.3f}" for name, cost in costs.items())

    def ended(self, record: Record) -> int:
        found = _look_of(record).verdict
        if found == verdict.SLOWER:
            return SLOWER
        # Undecided means neither "slower" nor "no slower".
        allowed = record.plan["options"]["allow_undecided"]
        return 1 if found == verdict.UNDECIDED and not allowed else 0

    def page(self, record: Record) -> Page:
        page, found = Page(self.title, record), _look_of(record)
        page.text(f"**Head is {answer(found)}.**")
        page.points(f"{name.capitalize()}: {record.facts[name]}" for name in BUILDS)
        if record.facts["same"]:
            page.text("Server and gateway are the same in both.")
        if load := record.facts["load"]:
            page.text(
                f"Open loop: {load['rate']:,.0f} requests/s, a tenth of them /work of {load['ops']:,} steps."
            )
        measures = {measure.name: measure for measure in _measures(record.rows)}
        findings = {one.measure: one for one in found.findings}

        def cost(build: str) -> tuple:
            def text(name: str) -> str:
                one = measures[name]
                rows = record.select(path=one.path, loop=one.loop)
                return middle([value for row in rows for value in one.of(row, build)], 2)

            return build, text

        page.table(
            "measure",
            list(measures),
            ("unit", lambda name: measures[name].unit),
            *map(cost, BUILDS),
            ("head's cost × base's", lambda name: _times(findings[name])),
            ("margin", lambda name: f"{findings[name].margin:g}%"),
            ("p slower", lambda name: f"{findings[name].p_slower:.3f}"),
            ("verdict", lambda name: findings[name].verdict),
        )
        points = [(one.measure, _interval(one)) for one in found.findings]
        series, limits = [Series("head / base", points)], {"equal": 1.0}
        panel = Panel(series, x="cost, head / base", log="x", limits=limits)
        page.plot(Plot("Head's cost in base's, with its interval", [panel]))
        page.text("How to read it: loadtests/bench/README.md, Comparison of two commits.")
        page.points(page.quality())
        return page


def _measures(tasks: Sequence[Mapping]) -> list[Measure]:
    places = {(task["path"], task["loop"]) for task in tasks}
    return [measure for measure in MEASURES if (measure.path, measure.loop) in places]


def looks(rounds: int) -> tuple[int, ...]:
    """Rounds after which there is a verdict."""
    return LOOKS if rounds == LOOKS[-1] else (rounds,)


def look(rows: Sequence[Row], margins: Mapping[str, float], rounds: int) -> Look:
    measures = _measures(rows)
    differences = {
        one.name: [
            one.difference(row)
            for row in rows
            if (row["path"], row["loop"]) == (one.path, one.loop)
        ]
        for one in measures
    }
    by_measure = {one.name: margins[one.kind] for one in measures}
    return verdict.look(differences, by_measure, len(looks(rounds)))


def _look_of(record: Record) -> Look:
    return look(record.rows, record.plan["options"]["margin"], record.plan["rounds"])


ANSWERS = {
    verdict.SLOWER: "slower than base",
    verdict.UNDECIDED: "undecided: it may be slower than base",
    verdict.NO_SLOWER: "no slower than base",
    verdict.NO_DIFFERENCE: "as fast as base",
    verdict.FASTER: "faster than base, and in nothing slower",
}


def answer(look: Look) -> str:
    text = f"{ANSWERS[look.verdict]}, after {look.rounds} round{'s' * (look.rounds > 1)}"
    findings = [one for one in look.findings if one.verdict == look.verdict]
    if look.verdict in (verdict.SLOWER, verdict.FASTER):
        costs = (f"{one.measure} costs {_times(one)} times base's" for one in findings)
        text += f": {'; '.join(costs)}"
    elif look.verdict == verdict.UNDECIDED:
        text += f" ({', '.join(one.measure for one in findings)})"
    return text


def _interval(one: Finding) -> list[float]:
    """Returns a finding's bounds and estimate, or only the estimate while the bounds are unknown."""
    return [one.ratio] if math.isinf(one.high) else [one.low, one.ratio, one.high]


def _times(one: Finding) -> str:
    if math.isinf(one.high):
        return f"{one.ratio:.3f}"
    return f"{one.ratio:.3f} ({one.low:.3f}–{one.high:.3f})"


def _load(bed: CompareBed) -> Load:
    """Returns the same load for both builds, at a rate that the slower one sustains."""
    works = [calibrate(bed.of(name), bed.cpus) for name in BUILDS]
    ops = works[0].ops(WORK_MS)
    costs = (
        SLOW_SHARE * ops / work.ops_per_ms * 1e3 + (1 - SLOW_SHARE) * work.hello_us
        for work in works
    )
    return Load(ops, round(LOAD * 1e6 / max(costs), 1))


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
