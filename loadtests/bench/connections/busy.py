"""Connections that are never idle: the cost of parking and moving for connections that do not need them.

The difference is small compared with the noise of the machine, and a process keeps its memory layout for its lifetime.
So each round starts all servers again, and measures many short slices of them alternately.
"""

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import fmean

from loadtests.bench.compare import verdict
from loadtests.bench.compare.signed_rank import SignedRank
from loadtests.bench.connections.part import ConnectionsStand, Part
from loadtests.bench.connections.rows import Rows
from loadtests.bench.connections.servers import Fleet, Replica, fleet
from loadtests.bench.cpu import Watch
from loadtests.bench.experiment.generator import Generator
from loadtests.bench.experiment.page import Page, cell
from loadtests.bench.experiment.plan import Plan, Row
from loadtests.bench.experiment.record import Record

CONNECTIONS = 64
SLICE, WARM_UP = 0.03, 0.1
"""Seconds. Short slices have similar disturbances as their neighbours."""

TURNS = 2
"""Times that each server has four slices in a round."""

MARGIN = 2.0
"""Percent by which the cost of a busy connection may differ."""

LOOKS = 3
"""The verdict is computed after each third of the rounds, by the rules of loadtests/bench/compare: the allowed error is
divided among the looks."""

OPEN = (verdict.UNDECIDED, verdict.NO_SLOWER)
"""More rounds may still show that it is within the margin."""

SAID = {
    verdict.NO_DIFFERENCE: "shown",
    verdict.NO_SLOWER: "undecided; not more expensive by as much",
    verdict.UNDECIDED: "undecided",
    verdict.SLOWER: "refuted: more expensive",
    verdict.FASTER: "refuted: cheaper",
}
"""Of "within the margin"."""

BASE, AGAIN, PARKING, BY_HYPER = (
    "nothing parks",
    "nothing parks (control)",
    "park_after 5 s",
    "all by hyper",
)
TWO, TWO_AGAIN = "two lanes: nothing parks", "two lanes: nothing parks (control)"
TWO_PARKED, TWO_ACTIVE = "two lanes: parked-only", "two lanes: active"
STILL = ("--moving", "off", "--park-after", "off")
ARMS = {
    BASE: STILL,
    AGAIN: STILL,
    PARKING: ("--moving", "off", "--park-after", "5s"),
    BY_HYPER: (*STILL, "--plain-requests", "off"),
    TWO: STILL,
    TWO_AGAIN: STILL,
    TWO_PARKED: ("--moving", "parked-only", "--park-after", "5s"),
    TWO_ACTIVE: ("--moving", "active", "--park-after", "5s"),
}


@dataclass(frozen=True)
class Load:
    """What connections ask, and which servers are asked; the first is the base."""

    arms: Sequence[str]
    div: bool = False
    bodies: int | None = None
    """One in so many requests of a connection has a body."""

    def options(self, stand: ConnectionsStand) -> dict[str, object]:
        """Of the load generator."""
        found: dict[str, object] = {"bodies": self.bodies} if self.bodies else {}
        if self.div:
            file = stand.folder / "div"
            file.write_text("2")
            found |= {"page": "/div/4", "file": file}
        return found


PLAIN = (BASE, AGAIN, PARKING)
LOADS = {
    "/hello": Load(PLAIN),
    "/div/4": Load(PLAIN, div=True),
    "1 in 10 with a body": Load((*PLAIN, BY_HYPER), bodies=10),
    "each with a body": Load((*PLAIN, BY_HYPER), bodies=1),
    "/hello on two lanes": Load((TWO, TWO_AGAIN, TWO_PARKED, TWO_ACTIVE)),
}


class Busy(Part):
    """Rounds until the verdict is decided."""

    scenario = "moving"
    name = "busy"
    title = "Connections that are busy"
    arms = tuple(ARMS)
    rounds = 12
    method = (
        f"Closed loop of {CONNECTIONS} connections to a server on a CPU alone; the generator never sleeps and has the other. In "
        f"each round all servers are started again. They have {4 * TURNS} slices of {SLICE:g} s each, alternately forwards "
        "and backwards, in a random order. A round gives the ratio of the geometric means of the slices. The estimate "
        "is that of Hodges and Lehmann. Interval and verdict are those of "
        f"[make loadtest-compare](../../loadtests/bench/compare/README.md). Each is wrong in at most {verdict.ERROR:.0%} of all runs, "
        f"if the true difference is {MARGIN:g}%. The control is the same server again. Two lanes share the CPU, and "
        f"connections are even on them. A body has 64 bytes. With `{BY_HYPER}`, `plain_requests` is off."
    )

    def rounds_of(self, plan: Plan) -> int:
        return LOOKS if plan.quick else super().rounds_of(plan)

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        lot = random.Random(number)
        with ExitStack() as stack:
            servers = {arm: stack.enter_context(_server(stand, arm)) for arm in arms}
            for name in lot.sample(list(LOADS), len(LOADS)):
                order = [arm for arm in arms if arm in LOADS[name].arms]
                for arm, row in _turns(stand, servers, order, LOADS[name]).items():
                    yield {"arm": arm, "line": f"{name}: {arm}", **row}

    def decided(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        if number % max(1, self.rounds_of(plan) // LOOKS):
            return False
        mine = Rows(Record("", {}, rows=list(rows)), self.name)
        return all(judged(mine, *pair) not in OPEN for pair in compared(mine))

    def brief(self, row: Row) -> str:
        return f"{row['line']}: {row['cpu_us']:.2f} µs/request, {row['wrong']} wrong"

    def reading(self, rows: Rows) -> Iterator[str]:
        for line, base in compared(rows):
            yield (
                f"Busy connections, {line}: CPU per request differs by {_percent(rows, line, base, 'cpu_us')} % from the base. "
                f"Within ± {MARGIN:g}%: **{SAID[judged(rows, line, base)]}**."
            )

    def report(self, page: Page, rows: Rows) -> None:
        bases = dict(compared(rows))

        def percent(figure: str):
            return lambda line: _percent(rows, line, bases[line], figure) if line in bases else ""

        def said(line: str) -> str:
            return SAID[judged(rows, line, bases[line])] if line in bases else ""

        page.table(
            "",
            sorted(rows.lines()),
            ("CPU, µs/request", lambda line: cell(rows.values(line, "cpu_us"), 2)),
            ("% of the base", percent("cpu_us")),
            (f"within ± {MARGIN:g}%", said),
            ("rounds", lambda line: str(len(rows.values(line, "cpu_us")))),
            ("requests/s, % of the base", percent("requests_per_second")),
        )


def compared(rows: Rows) -> Iterator[tuple[str, str]]:
    """Each line but the bases, and its base."""
    for name, load in LOADS.items():
        lines = [f"{name}: {arm}" for arm in load.arms]
        known = [line for line in lines if rows.values(line, "cpu_us")]
        if lines[0] in known:
            yield from ((line, lines[0]) for line in known[1:])


def judged(rows: Rows, line: str, base: str) -> str:
    """The verdict on the CPU per request."""
    found = {line: _differences(rows, line, base, "cpu_us")}
    (finding,) = verdict.look(found, {line: MARGIN}, LOOKS).findings
    return finding.verdict


def _percent(rows: Rows, line: str, base: str, figure: str) -> str:
    """By how many percent a figure differs: the estimate, and the interval that goes with the verdict."""
    rank = SignedRank(_differences(rows, line, base, figure))
    bounds = rank.interval(verdict.ERROR / LOOKS)
    estimate, low, high = (100 * math.expm1(value) for value in (rank.estimate, *bounds))
    # Few rounds have no bounds.
    return f"{estimate:+.2f}" + f" ({low:+.2f} to {high:+.2f})" * math.isfinite(high)


def _differences(rows: Rows, line: str, base: str, figure: str) -> list[float]:
    return [math.log(ratio) for ratio in rows.ratios(figure, line, base)]


def _server(stand: ConnectionsStand, arm: str):
    two = arm.startswith("two lanes")
    # Lanes that share a CPU cannot be pinned, one each.
    server = Replica("corelane-server", ARMS[arm], lanes=1 + two, pin=not two)
    return fleet([server], stand.programs, [stand.cpus[0]])


def _turns(
    stand: ConnectionsStand, servers: dict[str, Fleet], order: Sequence[str], load: Load
) -> dict[str, Row]:
    """Alternate short slices of all servers, so that a steady drift affects all equally (ABBA BAAB, with more letters)."""
    options = {"connections": CONNECTIONS, "seconds": SLICE, "warm_up": WARM_UP, "spin": True}
    options |= load.options(stand)
    if order and order[0].startswith("two lanes"):
        options["seats"] = "0,1"
    slices: dict[str, list[Row]] = {arm: [] for arm in order}
    with ExitStack() as stack:
        loads: dict[str, Generator] = {}
        for arm in order:
            argv = (stand.programs.generator, stand.clients, "closed", servers[arm].to[0])
            loads[arm] = stack.enter_context(Generator(*argv, **options))
        watch = Watch(lambda: sum(map(Fleet.cpu_seconds, servers.values())))
        back = list(reversed(order))
        for arm in (*order, *back, *back, *order) * TURNS:
            slices[arm].append(_slice(servers[arm], loads[arm]))
        generators = sum(one["generator_cpu_seconds"] for found in slices.values() for one in found)
        seen = watch.seen(generators)
    return {arm: {**seen, **_mean(slices[arm])} for arm in order}


def _slice(server: Fleet, load: Generator) -> Row:
    before = server.cpu_seconds()
    found = load.measure()
    used = server.cpu_seconds() - before
    return {**found, "cpu_us": used / found["requests"] * 1e6}


def _mean(slices: Sequence[Row]) -> Row:
    """The slices of one server in one round. Of geometric means the ratio of two is exactly the inverse of that
    of the two exchanged (as in loadtests/bench/compare/measures.py)."""

    def mean(figure: str) -> float:
        return math.exp(fmean(math.log(one[figure]) for one in slices))

    return {
        "requests": sum(one["requests"] for one in slices),
        "wrong": sum(one["wrong"] for one in slices),
        "cpu_us": mean("cpu_us"),
        "requests_per_second": mean("requests_per_second"),
        "slices": [round(one["cpu_us"], 3) for one in slices],
    }
