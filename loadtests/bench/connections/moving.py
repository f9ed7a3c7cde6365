"""Unevenly placed connections on two lanes."""

from collections.abc import Iterator, Sequence
from itertools import product

from loadtests.bench.connections.base import ConnectionsBed, Part
from loadtests.bench.connections.servers import MOVES, fleet, replica
from loadtests.bench.experiment.generator import Place
from loadtests.bench.experiment.page import Figure
from loadtests.bench.experiment.plan import Row

WARM_UP = 2.0
"""Seconds of the same load before, in which connections move to where they stay; none moves in its first."""

SECONDS = 1.5
WORK_MS = 0.2
RATE = 4000

ONE, BOTH, MOST = "all on lane 0", "on both lanes", "three quarters on lane 0"
LANES = {ONE: "0", BOTH: "0,1", MOST: "0,0,0,1"}
"""Lanes of the connections, alternately."""

STARTS = {
    f"{where} ({moving})": (LANES[where], moving)
    for where, moving in product(LANES, ("parked-only", "active"))
}
"""Where the connections begin, and what the server may do about it."""

STUCK, MOVED, EVEN, BASELINE, CROWDED, SPREAD = STARTS
LOADS = {
    "8 connections, closed loop": ("closed", 8, (STUCK, MOVED, EVEN, BASELINE)),
    "8 connections, open loop": ("open", 8, (STUCK, MOVED, EVEN, BASELINE)),
    "64 connections, closed loop": ("closed", 64, (CROWDED, SPREAD, EVEN)),
}

LATENCY = "latency_us.work"


class Moving(Part):
    """Each load on a server of its own, with a lane on each CPU."""

    scenario = "moving"
    name = "hot"
    title = "Connections that landed unevenly on two lanes"
    arms = tuple(STARTS)
    works = True
    tables = (
        (
            Figure("requests/s", "requests_per_second", 0),
            *(Figure(f"p{key}, ms", f"{LATENCY}.{key}", 2, 1e-3) for key in ("50", "99", "100")),
            Figure("hotter lane, %", "hotter_share", 0, 100),
            Figure("moves", "moves", 0),
        ),
    )
    charted = (
        Figure("requests/s", "requests_per_second"),
        Figure("p99, µs", f"{LATENCY}.99"),
    )

    def measure(self, bed: ConnectionsBed, arms: Sequence[str], number: int) -> Iterator[Row]:
        for name, (mode, count, starts) in LOADS.items():
            for arm in (one for one in arms if one in starts):
                row = _load(bed, mode, count, STARTS[arm], number)
                yield {"arm": arm, "line": f"{name}: {arm}", **row}


def _load(bed: ConnectionsBed, mode: str, count: int, start: tuple[str, str], number: int) -> Row:
    lanes, moving = start
    options = {"connections": count, "on_lanes": lanes, "ops": bed.work.ops(WORK_MS)}
    options |= {"seconds": bed.plan.seconds(SECONDS), "warm_up": WARM_UP}
    if mode == "open":
        options |= {"rate": RATE, "work_share": 1, "seed": number}
    server = replica("--moving", moving, "--park-after", "off", lanes=2)
    # Ahead of the lanes, or the generator could not send when a request is due.
    place = Place(list(bed.cpus), first=True)
    with fleet([server], bed.programs, list(bed.cpus)) as serving:
        found = bed.load(serving.servers[0], mode, place, **options)
        served = found["lanes"].values()
        share = max(served) / sum(served)
        return {**found, "hotter_share": share, "moves": serving.total(MOVES)}
