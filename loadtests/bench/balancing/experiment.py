"""`balancing`: measures every gateway policy in every scenario, all policies at the same time."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.balancing.policies import (
    DEFAULT,
    ONLY,
    WITHOUT_SLOW_LANES,
    fits,
    is_large,
    policies,
)
from loadtests.bench.balancing.scenarios import (
    LAG_MS,
    LOST_MS,
    REFERENCE,
    SCENARIOS,
    SLOW_SHARE,
    SLOWEST,
    TRIES,
    WARM_UP,
    Scenario,
    answers,
    capacity,
    rate,
    recovery,
)
from loadtests.bench.balancing.test_bed import Fleet, Shape, end_all
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.page import Page, cell, verdict
from loadtests.bench.experiment.plan import Plan, Row, Task, TestBed
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record, nearest
from tools import resolve

SETTLE = 3.0
"""Seconds of moderate load before a scenario, so that earlier weights decay."""

SETTLE_LOAD = 40.0

TARGET = 10.0
"""Target ratio of round robin's p99 to the default policy's, with one slow replica among three or
four.
"""

SMALL = [(replicas, gateways) for gateways in (1, 3) for replicas in (2, 3, 4)]
SHAPES = {
    str(shape): shape
    for shape in (
        *(Shape(*each) for each in (*SMALL, (3, 10), (10, 3), (10, 10))),
        Shape(1, 0, lanes_each=4),
    )
}
QUICK = ("3x3",), ("half", "antagonist", "failing")

OBJECTIVE = f"p99 ≤ {SLOWEST:.0f} × the service time"


@dataclass
class BalancingBed(TestBed):
    folder: Path = Path()


class Balancing(Experiment):
    """A round is a seed; each policy of a shape has dedicated replicas and gateways."""

    name = "balancing"
    title = "Balancing policies under failures"
    help = "load that each balancing policy of the gateway sustains under failures"
    lead = "A round is a seed. The method: docs/results/bench-balancing.md."
    rounds = 3
    seconds = 7.0
    quick = 1.0
    together = ("shape",)
    at_once = 3

    def tasks(self, plan: Plan) -> list[Task]:
        shapes, scenarios = QUICK if plan.quick and not plan.only else (SHAPES, SCENARIOS)
        return [
            {"shape": shape, "scenario": name}
            for shape in shapes
            for name in scenarios
            if fits(name, SHAPES[shape].replicas, SHAPES[shape].gateways)
        ]

    @contextmanager
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[BalancingBed]:
        # The replicas are peers, so no server build is needed.
        peers = builds.build(["load-generator", "virtual-replica"], plan.profile)
        programs = Programs(Path(), peers, resolve.ensure(["helm", "envoy", "supervisord"]))
        folder = Path(tempfile.mkdtemp(prefix="bench-balancing-"))
        try:
            yield BalancingBed(plan, (), programs, folder=folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def measure_group(self, bed: BalancingBed, tasks: Sequence[Task], number: int) -> Iterator[Row]:
        shape = SHAPES[tasks[0]["shape"]]
        chosen = policies(shape.replicas, shape.gateways)
        with ExitStack() as stack:
            fleets = {}
            for index, (name, upstream) in enumerate(chosen.items()):
                folder = bed.folder / f"{number}-{shape}-{index}"
                held = name in WITHOUT_SLOW_LANES
                fleet = Fleet(bed.programs, shape, upstream, folder, held=held)
                fleets[name] = stack.enter_context(fleet)
            for task in tasks:
                scenario = SCENARIOS[task["scenario"]]
                # Quick runs use only the first seed, which all scenarios have.
                if number <= scenario.seeds:
                    with _watched() as machine:
                        rows = _climb(fleets, scenario, shape, number)
                    yield from ({**task, **row, **machine} for row in rows)

    def alone(self, tasks: Sequence[Task]) -> bool:
        """Large shapes nearly fill a small machine, and four lanes need exact wake-ups."""
        shape = SHAPES[tasks[0]["shape"]]
        return is_large(shape.replicas, shape.gateways) or not shape.gateways

    def abort(self) -> None:
        end_all()

    def brief(self, row: Row) -> str:
        wrong = f", {row['wrong']} wrong" if row["wrong"] else ""
        return f"{row['policy']} at {row['load']:g}%: p99 {row['p99']:.0f} ms{wrong}"

    def verdicts(self, record: Record) -> Iterator[str]:
        shapes = [shape for shape in record.labels("shape") if shape[0] in "34"]
        for name in ("half", "antagonist"):
            arms = {"policy": "round-robin"}, {"policy": DEFAULT}
            where = {"scenario": name, "load": REFERENCE}
            found = [
                one for shape in shapes for one in record.ratios("p99", *arms, shape=shape, **where)
            ]
            if found:
                yield (
                    f"{SCENARIOS[name].title}, three or four replicas, {REFERENCE}% load: p99 of round-robin ÷ p99 of "
                    f"{DEFAULT}: {verdict(found, TARGET, least=True)}."
                )
        late = sum(row["lag_p99"] > LAG_MS for row in record.rows)
        yield (
            f"The machine was at most {max(record.values('busy')):.0%} busy during a scenario. In {late} of "
            f"{len(record.rows)} samples, the generator sent 1% of the requests more than {LAG_MS:.0f} ms late after "
            f"up to {TRIES} tries. Such samples describe the machine rather than a policy."
        )

    def report(self, page: Page, record: Record) -> None:
        ladders = [name for name in record.labels("scenario") if SCENARIOS[name].ladder]
        if ladders:
            self._ladders(page, record, ladders)
        for name in record.labels("scenario"):
            if SCENARIOS[name].over:
                _event(page, record, name)

    def _ladders(self, page: Page, record: Record, ladders: Sequence[str]) -> None:
        page.plot(_plot(record, ladders))
        page.section(f"Capacity in % within the objective ({OBJECTIVE})")
        for name in ladders:
            steps = ", ".join(f"{load:g}" for load in SCENARIOS[name].ladder)
            page.section(SCENARIOS[name].title, f"Steps: {steps}.", level=3)
            _table(page, record, name, lambda *at: cell(capacities(record, *at), 0))
        for figure, title in {
            "p99": "p99 in ms",
            "gateway_us": "Gateway CPU, µs per request",
        }.items():
            page.section(f"{title} at {REFERENCE}% of the nominal capacity")
            for name in ladders:
                page.text(f"{SCENARIOS[name].title}:")
                _table(
                    page,
                    record,
                    name,
                    lambda *at, figure=figure: cell(_values(record, figure, *at), 0),
                )

    def failed(self, record: Record) -> int:
        return 0


def _climb(fleets: dict[str, Fleet], what: Scenario, shape: Shape, seed: int) -> list[dict]:
    fleets = {
        name: fleet for name, fleet in fleets.items() if what.name in ONLY.get(name, (what.name,))
    }
    for fleet in fleets.values():
        fleet.tell_all(f"times {what.service_ms[0]} {what.service_ms[1]}")
        fleet.tell(f"speed {what.speed}")
    if any(event.line == "start" for event in what.events):
        for fleet in fleets.values():
            fleet.tell("stop")
        for fleet in fleets.values():
            fleet.wait_until_healthy(shape.replicas - 1)
    _together(fleets, what, shape, SETTLE_LOAD, SETTLE, seed)
    cells = []
    climbing = set(fleets)
    for load in what.ladder or [what.load]:
        going = {
            name: fleet
            for name, fleet in fleets.items()
            if not what.ladder or name in climbing or load == REFERENCE
        }
        if not going:
            continue
        for name, found in _undisturbed(going, what, shape, load, seed).items():
            cells.append({"policy": name, **found})
            if found["slowdown"] > SLOWEST:
                climbing.discard(name)
    for fleet in fleets.values():
        fleet.tell("speed 1")
    return cells


def _undisturbed(
    fleets: dict[str, Fleet], what: Scenario, shape: Shape, load: float, seed: int
) -> dict[str, dict]:
    """Measures a step again if other processes kept the machine busy."""
    found: dict[str, dict] = {}
    for number in range(TRIES if what.ladder else 1):
        before = {name: fleet.gateway_seconds() for name, fleet in fleets.items()}
        seconds, draw = WARM_UP + what.seconds, seed + 100 * number
        reports = _together(fleets, what, shape, load, seconds, draw, what.events)
        found = {
            name: _cell(report, what, load, fleets[name].gateway_seconds() - before[name])
            for name, report in reports.items()
        }
        if max(one["lag_p99"] for one in found.values()) <= LAG_MS:
            break
    return found


def _together(
    fleets: dict[str, Fleet],
    what: Scenario,
    shape: Shape,
    load: float,
    seconds: float,
    seed: int,
    events: Iterable = (),
) -> dict[str, dict]:
    """Sends the same arrivals to every policy at the same time."""
    begun = time.monotonic()
    turn = {"rate": rate(what, load, shape.lanes), "seconds": seconds}
    turn |= {"work_share": SLOW_SHARE if what.mixed else 0.0, "seed": 1000 * seed + int(load)}
    for fleet in fleets.values():
        fleet.generator.tell(json.dumps(turn))
    for event in events:
        time.sleep(max(0.0, begun + event.at - time.monotonic()))
        for fleet in fleets.values():
            fleet.tell(event.line)
    return {name: fleet.generator.answer() for name, fleet in fleets.items()}


def _cell(report: dict, what: Scenario, load: float, gateway_seconds: float) -> dict:
    found = answers(report)
    counted = [each for each in found if each[0] >= WARM_UP * 1000]
    times = [took if right else LOST_MS for _, took, _, right in counted]
    fast, slow = (
        [took if right else LOST_MS for _, took, kind, right in counted if kind == which]
        for which in (False, True)
    )
    p99_fast, p99_slow = (nearest(kind, 99) if kind else 0.0 for kind in (fast, slow))
    until = WARM_UP + what.seconds
    return {
        "load": load,
        "requests": report["requests"],
        "p50": nearest(times, 50),
        "p99": nearest(times, 99),
        "p99_fast": p99_fast,
        "p99_slow": p99_slow,
        "slowdown": what.slowdown(p99_fast, p99_slow),
        "wrong": report["wrong"],
        "faults": report["faults"],
        "recovery": recovery(found, what.over, until) if what.over else None,
        "gateway_us": gateway_seconds / report["requests"] * 1e6,
        "lag_p99": report["lag_us"]["99"] / 1000,
    }


@contextmanager
def _watched() -> Iterator[dict[str, float]]:
    begun, before, found = time.monotonic(), cpu.Machine.now(), {}
    yield found
    after, cores = cpu.Machine.now(), os.cpu_count() or 1
    found["busy"] = (after.busy - before.busy) / (time.monotonic() - begun) / cores


def capacities(record: Record, scenario: str, shape: str, policy: str) -> list[float]:
    rounds: dict[int, dict[float, float]] = {}
    for row in record.select(scenario=scenario, shape=shape, policy=policy):
        rounds.setdefault(row["round"], {})[row["load"]] = row["slowdown"]
    return [capacity(loads) for loads in rounds.values()]


def _values(record: Record, figure: str, scenario: str, shape: str, policy: str) -> list[float]:
    load = SCENARIOS[scenario].load or REFERENCE
    return record.values(figure, scenario=scenario, shape=shape, policy=policy, load=load)


def _table(
    page: Page, record: Record, scenario: str, figure: Callable[[str, str, str], str]
) -> None:
    columns = [
        (policy, lambda shape, policy=policy: figure(scenario, shape, policy))
        for policy in record.labels("policy", scenario=scenario)
    ]
    page.table("replicas x gateways", record.labels("shape", scenario=scenario), *columns)


def _event(page: Page, record: Record, name: str) -> None:
    scenario = SCENARIOS[name]
    counted = "the other replicas'" if scenario.of_others else "the"
    load = scenario.load or REFERENCE
    page.section(
        scenario.title,
        f"Load: {load:g}% of {counted} nominal capacity. The table shows the seconds until the p99 meets the objective again:",
    )

    def recovered(*at: str) -> str:
        known, rounds = _values(record, "recovery", *at), len(_values(record, "p99", *at))
        late = f"; {rounds - len(known)} not in time" if len(known) < rounds else ""
        return cell(known, 1) + late

    def wrong(*at: str) -> str:
        pairs = zip(*(_values(record, each, *at) for each in ("wrong", "requests")), strict=True)
        return cell([100 * wrong / requests for wrong, requests in pairs], 2)

    _table(page, record, name, recovered)
    page.text("Percentage of requests without a correct response:")
    _table(page, record, name, wrong)


def _plot(record: Record, ladders: Sequence[str]) -> Plot:
    def series(name: str, policy: str) -> Series:
        shapes = record.labels("shape", scenario=name, policy=policy)
        return Series(
            policy, [(shape, capacities(record, name, shape, policy)) for shape in shapes]
        )

    panels = [
        Panel(
            [
                series(name, one)
                for one in record.labels("policy", scenario=name)
                if one not in ONLY
            ],
            SCENARIOS[name].title,
            "% of nominal capacity",
        )
        for name in ladders
    ]
    return Plot(f"Highest load with {OBJECTIVE}, by replicas x gateways", panels)
