"""The report of `balancing`: what each policy carries, and what it does when something happens."""

from collections.abc import Callable

from loadtests.bench.balancing.scenarios import (
    LAG_MS,
    ONLY,
    REFERENCE,
    SCENARIOS,
    SLO_MS,
    SLOWEST,
    TRIES,
    adoption,
    capacities,
    former,
    ladders,
    reference,
    target,
)
from loadtests.bench.experiment.page import LEGEND, Page, cell
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record

OBJECTIVE = f"p99 ≤ {SLOWEST:.0f} × the service time"


def page(title: str, record: Record) -> Page:
    """The whole report."""
    found = Page(title, record, "A round is a seed.", LEGEND)
    if ladders(record):
        found.plot(_plot(record))
    found.section("Reading")
    found.points([*target(record), *adoption(record), _disturbance(record)])
    found.section(f"Capacity within the objective ({OBJECTIVE})", CAPACITY)
    for name in ladders(record):
        steps = ", ".join(f"{load:g}" for load in SCENARIOS[name].ladder)
        found.section(SCENARIOS[name].title, f"Steps: {steps}.", level=3)
        _table(found, record, name, lambda *at: cell(capacities(record, *at), 0))
        if SCENARIOS[name].mixed:
            found.text(FORMER)
            _table(found, record, name, lambda *at: cell(former(record, *at), 0))
    found.section(f"p99 in ms at {REFERENCE}% of the nominal capacity")
    for name in ladders(record):
        found.section(SCENARIOS[name].title, level=3)
        _table(found, record, name, lambda *at: cell(_values(record, "p99", *at), 0))
    for name in record.labels("scenario"):
        if SCENARIOS[name].over:
            _event(found, record, name)
    for name in ladders(record)[:1]:
        found.section("CPU of the gateways", CPU.format(title=SCENARIOS[name].title.lower()))
        _table(found, record, name, lambda *at: cell(_values(record, "gateway_us", *at), 0))
    found.section("How it is measured", METHOD)
    return found


def _values(record: Record, figure: str, scenario: str, shape: str, policy: str) -> list[float]:
    load = reference(scenario)
    return record.values(figure, scenario=scenario, shape=shape, policy=policy, load=load)


def _table(
    found: Page, record: Record, scenario: str, figure: Callable[[str, str, str], str]
) -> None:
    """A line for each shape, a column for each policy that the scenario was measured with."""
    columns = [
        (policy, lambda shape, policy=policy: figure(scenario, shape, policy))
        for policy in record.labels("policy", scenario=scenario)
    ]
    found.table("replicas x gateways", record.labels("shape", scenario=scenario), *columns)


def _event(found: Page, record: Record, name: str) -> None:
    scenario = SCENARIOS[name]
    counted = "the other replicas'" if scenario.of_others else "the"
    found.section(
        scenario.title,
        f"Load: {reference(name):g}% of {counted} nominal capacity. Seconds until the p99 is within the "
        "objective again:",
    )

    def recovered(*at: str) -> str:
        known, rounds = _values(record, "recovery", *at), len(_values(record, "p99", *at))
        return cell(known, 1) + (
            f"; {rounds - len(known)} not in time" if len(known) < rounds else ""
        )

    def wrong(*at: str) -> str:
        pairs = zip(*(_values(record, each, *at) for each in ("wrong", "requests")), strict=True)
        return cell([100 * wrong / requests for wrong, requests in pairs], 2)

    _table(found, record, name, recovered)
    found.text("Requests without a correct reply, in percent:")
    _table(found, record, name, wrong)


def _disturbance(record: Record) -> str:
    late = sum(row["lag_p99"] > LAG_MS for row in record.rows)
    return (
        f"During a scenario the machine was at most {max(record.values('busy')):.0%} busy, and its host took at "
        f"most {max(record.values('stolen')):.1%}. In {late} of {len(record.rows)} samples the generator sent 1% of "
        f"the requests more than {LAG_MS:.0f} ms late, after up to {TRIES} tries. These depend more on the machine "
        "than on a policy."
    )


def _plot(record: Record) -> Plot:
    panels = []
    for name in ladders(record):
        series = [
            Series(
                policy,
                [
                    (shape, carried)
                    for shape in record.labels("shape")
                    if (carried := capacities(record, name, shape, policy))
                ],
            )
            for policy in record.labels("policy", scenario=name)
            if policy not in ONLY
        ]
        panels.append(Panel(series, title=SCENARIOS[name].title))
    panels[-1].x = "% of nominal capacity"
    return Plot(f"Highest load with {OBJECTIVE}, by replicas x gateways", panels)


FORMER = f"By the former objective, the p99 of the fast requests alone within {SLO_MS:.0f} ms, with the slow ones not judged:"

CAPACITY = (
    "Highest offered load in percent of the replicas' nominal capacity at which the p99 of each kind of request is "
    f"within {SLOWEST:.0f} times its own service time. log(p99) is interpolated between the last "
    "step within the objective and the first one beyond. 0 means less than the first step, and the last step means "
    "that or more."
)

CPU = (
    f"µs per request at {REFERENCE}% load ({{title}}), health checks included. So few requests per second leave Envoy "
    "asleep between them, which makes each more expensive than under full load; only the differences count."
)

METHOD = """\
A replica is a process of the `corelane` library with one lane or four, its real queue, probes and load reports. A
request holds the lane for 10 ms of wall-clock time, in which the thread sleeps: a virtual CPU, so that many
replicas fit on a small machine. Its queue never fills and no timeout is reached, so nothing is shed.

Gateways are Envoy with the configuration that the chart renders, one worker each. The load is an open loop:
Poisson arrivals, each sent to a gateway at random, whose latency counts from when it was due. All policies
have their own replicas and gateways and run at the same time with the same arrivals, so disturbances of the
machine affect all of them.

The last replica fails. *Half the capacity*: its speed is 0.5 throughout. *Preempted*: its speed is 0.4 for
4 s of 8 s. *5% of the requests 20 times as long*: 5.1 ms and 103 ms, 10 ms on average. Each kind is judged by its own
time: 51 ms and 1,026 ms. The slow ones run on slow lanes, whose virtual CPU the lane interrupts; *held lanes*
has none. *Joins*: it starts after 3 s in
which the others had 110% of their capacity. *Fails fast*: it answers 500 at once for 5 s.

Shapes of 30 pairs of a replica and a gateway or more have few policies and no failures: the machine has no
room for more. *4 lanes* is one replica of four lanes without a gateway, whose connections are
placed by a hash.

A policy that misses the objective climbs no further, except that all are measured at 70%. A request without a
correct reply counts as 10 s. Recovery is the start of the first three consecutive windows of 500 ms whose p99
is within the objective. A step in which the generator itself was late is repeated, up to three times."""
