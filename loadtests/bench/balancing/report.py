"""The report of `balancing`: what each policy carries, and what it does when something happens."""

from collections.abc import Callable

from loadtests.bench.balancing.climb import LAG_MS, TRIES
from loadtests.bench.balancing.policies import ONLY
from loadtests.bench.balancing.scenarios import REFERENCE, SCENARIOS, SLO_MS
from loadtests.bench.balancing.verdict import adoption, at, capacities, cells, target
from loadtests.bench.text import spread, table

Cell = dict


def measured(record: dict, scenario: str) -> list[str]:
    """The policies that a scenario was measured with."""
    return [policy for policy in record["policies"] if scenario in ONLY.get(policy, (scenario,))]


def markdown(record: dict) -> str:
    """The whole report."""
    ladders = [name for name in record["scenarios"] if SCENARIOS[name].ladder]
    events = [name for name in record["scenarios"] if SCENARIOS[name].over]
    parts = [
        "# Balancing policies under trouble",
        (
            "Written by `make bench-balancing`. Figures are medians over the seeds, with the lowest "
            "and the highest in brackets."
        ),
        _setting(record),
        "![Capacity within the latency objective](bench-balancing.svg)",
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading(record)),
        f"## Capacity within the objective (p99 ≤ {SLO_MS:.0f} ms)",
        (
            "Highest offered load in percent of the replicas' nominal capacity. Between the last step of "
            "a ladder within the objective and the first beyond, log(p99) is interpolated; 0 means less "
            "than the first step, and the last step means that or more."
        ),
    ]
    for name in ladders:
        steps = ", ".join(f"{load:g}" for load in SCENARIOS[name].ladder)
        parts += [
            f"### {SCENARIOS[name].title}",
            f"Steps: {steps}; {min(len(record['seeds']), SCENARIOS[name].seeds)} seeds.",
            _capacities(record, name),
        ]
    parts.append(f"## p99 in ms at {REFERENCE}% of the nominal capacity")
    for name in ladders:
        parts += [
            f"### {SCENARIOS[name].title}",
            _by_policy(record, name, lambda cell: cell["p99"], 0, REFERENCE),
        ]
    for name in events:
        parts += [f"## {SCENARIOS[name].title}", *_event(record, name)]
    parts += ["## CPU of the gateways", *_cpu(record), "## How it is measured", _method(record)]
    return "\n\n".join(parts) + "\n"


def brief(found: list[Cell]) -> str:
    """One scenario in a line, for who watches."""
    last: dict[str, Cell] = {}
    for cell in found:
        if cell["load"] == REFERENCE or SCENARIOS[cell["scenario"]].load:
            last[cell["policy"]] = cell
    figures = [
        f"{name} {cell['p99']:.0f} ms" + (f" {cell['wrong']} wrong" if cell["wrong"] else "")
        for name, cell in last.items()
    ]
    return f"{found[0]['scenario']}: p99 {', '.join(figures)}"


def reading(record: dict) -> list[str]:
    """What the figures say, in sentences."""
    return [*target(record), *adoption(record), _disturbance(record)]


def _disturbance(record: dict) -> str:
    found = record["cells"]
    late = sum(cell["lag_p99"] > LAG_MS for cell in found)
    return (
        f"The machine was {record['busy_share']:.0%} busy on average, at most "
        f"{max(cell['busy'] for cell in found):.0%} during a scenario; {record['stolen_share']:.1%} "
        f"was stolen by its host. In {late} of {len(found)} cells the generator sent 1% of the "
        f"requests more than {LAG_MS:.0f} ms late, after up to {TRIES} tries: these say more of the "
        "machine than of a policy."
    )


def _rows(record: dict, scenario: str, figure: Callable[[str, str], str]) -> str:
    shown = measured(record, scenario)
    head = ["replicas x gateways", *shown]
    rows = [[shape, *(figure(shape, policy) for policy in shown)] for shape in record["shapes"]]
    return table(head, rows)


def _capacities(record: dict, scenario: str) -> str:
    def figure(shape: str, policy: str) -> str:
        found = capacities(record, scenario, shape, policy)
        return spread(found, 0) if found else "–"

    return _rows(record, scenario, figure)


def _by_policy(
    record: dict, scenario: str, value: Callable[[Cell], float], digits: int, load: float
) -> str:
    def figure(shape: str, policy: str) -> str:
        found = [
            value(cell)
            for seed in record["seeds"]
            for cell in cells(record, scenario, shape, policy, seed)
            if cell["load"] == load
        ]
        return spread(found, digits) if found else "–"

    return _rows(record, scenario, figure)


def _event(record: dict, scenario: str) -> list[str]:
    load = SCENARIOS[scenario].load or REFERENCE

    def recovered(shape: str, policy: str) -> str:
        found = [at(record, scenario, shape, policy, seed) for seed in record["seeds"]]
        times = [cell["recovery"] for cell in found if cell]
        known = [time for time in times if time is not None]
        never = f"; {len(times) - len(known)} not in time" if len(known) < len(times) else ""
        return (spread(known, 1) if known else "–") + never

    counted = "the other replicas'" if SCENARIOS[scenario].of_others else "the"
    return [
        (
            f"Load: {load:g}% of {counted} nominal capacity. Seconds until the p99 is within the "
            "objective again:"
        ),
        _rows(record, scenario, recovered),
        "Requests without a right answer, in percent:",
        _by_policy(record, scenario, lambda cell: 100 * cell["wrong"] / cell["requests"], 2, load),
    ]


def _cpu(record: dict) -> list[str]:
    name = next((n for n in record["scenarios"] if SCENARIOS[n].ladder), None)
    if name is None:
        return []
    return [
        (
            f"µs per request at {REFERENCE}% load ({SCENARIOS[name].title.lower()}), health checks "
            "included. So few requests per second leave Envoy asleep between them, which makes each "
            "dearer than under full load; only the differences count."
        ),
        _by_policy(record, name, lambda cell: cell["gateway_us"], 0, REFERENCE),
    ]


def _setting(record: dict) -> str:
    about = record["machine"]
    return (
        f"{about['date']}, {about['cpu']}, {about['cores']} cores, {about['kernel']}, sources "
        f"{about['sources']}; {record['seconds'] / 60:.0f} minutes."
    )


def _method(record: dict) -> str:
    return METHOD


METHOD = """\
A replica is a process of the `corelane` library with one lane, its real queue, probes and load reports. A
request holds the lane for 10 ms of wall-clock time, in which the thread sleeps: a virtual CPU, so that many
replicas fit on a small machine. Its queue never fills and no time-out is reached, so nothing is shed.

Gateways are Envoy with the configuration that the chart renders, one worker each. The load is an open loop:
Poisson arrivals, each sent to a gateway at random, whose latency counts from when it was due. All policies
have replicas and gateways of their own and run at the same time with the same arrivals, so whatever disturbs
the machine disturbs all alike.

The last replica has the trouble. *Half the capacity*: its speed is 0.5 throughout. *Robbed*: its speed is 0.4
for 4 s of 8 s. *5% of the requests 20 times as long*: 5.1 ms and 103 ms, 10 ms on average; here the
objective is for the p99 of the fast ones, since the slow ones miss it by themselves. *Joins*: it starts after
3 s in which the others had 110% of what they can do. *Fails fast*: it answers 500 at once for 5 s.

A policy that misses the objective climbs no further; at 70% all are measured. A request without a right answer
counts as 10 s. Recovery is the begin of the first three windows of 500 ms in a row whose p99 is within the
objective. A step in which the generator itself was late is taken again, up to three times."""
