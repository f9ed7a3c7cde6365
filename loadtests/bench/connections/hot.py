"""Unevenly placed connections on two lanes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from loadtests.bench.connections.part import ConnectionsStand, Part, Rows
from loadtests.bench.connections.servers import MOVES, Replica, fleet
from loadtests.bench.experiment.generator import cpu_of
from loadtests.bench.experiment.page import Page, cell
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.plots import Panel, Plot, Series

WARM_UP = 2.0
"""Seconds of the same load before, in which connections move to where they stay; none moves in its first."""

SECONDS = 1.5
WORK_MS = 0.2
RATE = 4000

LATENCY = (
    ("p50, ms", "latency_us.work.50", 2, 1e-3),
    ("p99, ms", "latency_us.work.99", 2, 1e-3),
    ("longest, ms", "latency_us.work.100", 2, 1e-3),
)


@dataclass(frozen=True)
class Start:
    """Where the connections begin, and what the server may do about it."""

    seats: str
    """Lanes of the connections, alternately."""
    moving: str


@dataclass(frozen=True)
class Load:
    """What the connections do."""

    mode: str
    connections: int
    arms: tuple[str, ...]


ONE, BOTH, MOST = "all on lane 0", "on both lanes", "three quarters on lane 0"
SEATS = {ONE: "0", BOTH: "0,1", MOST: "0,0,0,1"}
STARTS = {
    f"{where} ({moving})": Start(seats, moving)
    for (where, seats), moving in product(SEATS.items(), ("off", "active"))
}
STUCK, MOVED, EVEN, CALM, CROWDED, SPREAD = STARTS
LOADS = {
    "8 connections, closed loop": Load("closed", 8, (STUCK, MOVED, EVEN, CALM)),
    "8 connections, open loop": Load("open", 8, (STUCK, MOVED, EVEN, CALM)),
    "64 connections, closed loop": Load("closed", 64, (CROWDED, SPREAD, EVEN)),
}
CLOSED, OPEN, MANY = LOADS


def _line(load: str, arm: str) -> str:
    return f"{load}: {arm}"


class Hot(Part):
    """Each load on a server of its own, with a lane on each CPU."""

    scenario = "moving"
    name = "hot"
    title = "Connections that landed unevenly on two lanes"
    arms = tuple(STARTS)
    works = True
    method = (
        "Keep-alive connections that were opened again until the wanted lane answered, to a server of two lanes, each on a "
        f"CPU; `/work` of {WORK_MS * 1e3:.0f} µs. {WARM_UP:g} s of the same load are not measured, in which connections "
        "move to where they stay. The generator shares both CPUs with the lanes, ahead of them. In the open loop "
        f"{RATE:,} requests start each second at random times, and latency counts from when a request was due."
    )

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        for name, load in LOADS.items():
            for arm in (one for one in arms if one in load.arms):
                yield {
                    "arm": arm,
                    "line": _line(name, arm),
                    **_load(stand, load, STARTS[arm], number),
                }

    def brief(self, row: Row) -> str:
        return (
            f"{row['line']}: {row['requests_per_second']:,.0f} requests/s, p99 {row['latency_us']['work']['99'] / 1e3:.2f} ms, "
            f"{row['hotter_share']:.0%} on one lane, {row['moves']:.0f} moves, {row['wrong']} wrong"
        )

    def reading(self, rows: Rows) -> Iterator[str]:
        def ratios(figure: str, load: str, mine: str, base: str) -> str:
            return cell(rows.ratios(figure, _line(load, mine), _line(load, base)), 2)

        rate, p99 = "requests_per_second", "latency_us.work.99"
        yield (
            f"Eight connections on one of two lanes, closed loop. With `active` there are {ratios(rate, CLOSED, MOVED, STUCK)} "
            f"times the requests/s of `off`, and {ratios(rate, CLOSED, MOVED, EVEN)} times those of even placement."
        )
        yield (
            f"The same at {RATE:,} requests/s: the p99 is {ratios(p99, OPEN, MOVED, STUCK)} times that of `off`, and "
            f"{ratios(p99, OPEN, MOVED, EVEN)} times that of evenly placed ones."
        )
        yield (
            "64 connections, three quarters of them on one lane: the p50 is "
            f"{ratios('latency_us.work.50', MANY, SPREAD, CROWDED)} times that of `off`."
        )
        calm = [move for load in (CLOSED, OPEN) for move in rows.values(_line(load, CALM), "moves")]
        yield f"Where they were even from the begin, `active` moved {cell(calm, 0)} connections in a run."

    def report(self, page: Page, rows: Rows) -> None:
        columns = (("requests/s", "requests_per_second", 0), *LATENCY)
        columns += (("hotter lane, %", "hotter_share", 0, 100), ("moves", "moves", 0))
        lines = sorted(rows.lines(), key=lambda line: list(LOADS).index(line.partition(": ")[0]))
        rows.table(page, columns, lines)
        page.plot(_plot(rows, lines))


def _plot(rows: Rows, lines: Sequence[str]) -> Plot:
    figures = {"requests_per_second": "requests/s", "latency_us.work.99": "p99, µs"}
    panels = [
        Panel(
            [Series(title, [(line, rows.values(line, figure)) for line in lines])],
            title,
            kind="bars",
        )
        for figure, title in figures.items()
    ]
    return Plot("Connections that move between two lanes", panels, name="hot")


def _load(stand: ConnectionsStand, load: Load, start: Start, number: int) -> Row:
    options = {"connections": load.connections, "seats": start.seats}
    options |= {"seconds": stand.plan.seconds(SECONDS), "warm_up": WARM_UP}
    options["ops"] = stand.work.ops(WORK_MS)
    if load.mode == "open":
        options |= {"rate": RATE, "work_share": 1, "seed": number}
    server = Replica("corelane-server", ("--moving", start.moving, "--park-after", "off"), lanes=2)
    with (
        fleet([server], stand.programs, list(stand.cpus)) as serving,
        stand.generator(load.mode, serving.to[0], **options) as generator,
    ):
        _used, found = cpu_of(serving.servers[0], generator)
        lanes = found["lanes"].values()
        share = max(lanes) / sum(lanes)
        return {**found, "hotter_share": share, "moves": serving.total(MOVES)}
