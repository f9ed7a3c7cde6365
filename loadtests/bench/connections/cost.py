"""What a park, a wake-up and a move cost: the CPU time of the lanes, as differences."""

import http.client
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from loadtests.bench.connections.clients import Holders, holders
from loadtests.bench.connections.part import ConnectionsStand, Part
from loadtests.bench.connections.rows import Rows
from loadtests.bench.connections.servers import (
    MOVES,
    PARKINGS,
    Fleet,
    Replica,
    fleet,
)
from loadtests.bench.experiment.generator import Place
from loadtests.bench.experiment.page import Page, cell, verdict
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.servers import HOST, PATIENCE
from tools.errors import ToolError

RESTING = 2000
CYCLES = 4
"""Even, so that each lane is avoided as often as the other."""

REST = 0.2
"""Seconds between a request and the next: park_after and the sweeps that follow it."""

PARK_AFTER = "100ms"
"""The shortest that the server takes."""

SPREADS = {"in one moment": 0.0, "within 0.1 s": 0.1}
"""Seconds over which the requests of a cycle are spread: lanes that are busy with them have not to be woken."""

AWAKE, PARKS, PARKS_AND_MOVES = "stays awake", "parks and wakes", "parks and wakes and moves"
FLAGS = {
    AWAKE: ("--moving", "off", "--park-after", "off"),
    PARKS: ("--moving", "off", "--park-after", PARK_AFTER),
    PARKS_AND_MOVES: ("--moving", "parked-only", "--park-after", PARK_AFTER),
}

EXPECTED_MS = 3.0
"""Of the expensive request: more than the difference that lets a connection move."""

WAIT = "150ms"
"""For as long as the requests of a cycle come."""

TRIES = 64

MOVE_TARGET = 10.0
"""Microseconds that a move may cost."""


class Cost(Part):
    """All servers run throughout a round, with load on one at a time."""

    scenario = "moving"
    name = "cost"
    title = "What a park, a wake-up and a move cost"
    arms = tuple(FLAGS)
    works = True
    method = (
        f"Connections request `/hello`, all at once or spread over 0.1 s, and rest for {REST:g} s or until all are parked "
        f"(`park_after` {PARK_AFTER}), {CYCLES} times in a round. Meanwhile a request of {EXPECTED_MS:g} ms waits on one "
        "lane, alternately. With `parked-only`, connections that wake on this lane move to the other, because a woken "
        "connection goes to the lane with the least expected work. CPU time is that of the lanes' threads from the kernel's "
        "schedstat, including sweeps. The cost of a park and a wake-up is the second row less the first, per parking. The "
        "cost of a move is the third row less the second, per move, including the wake-up of a sleeping target."
    )

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        place, count = Place(list(stand.cpus)), stand.count(RESTING)
        ops = stand.work.ops(EXPECTED_MS)
        with ExitStack() as stack:
            held = {}
            for arm in arms:
                server = Replica("corelane-server", (*FLAGS[arm], "--faults", "on"), lanes=2)
                serving = stack.enter_context(fleet([server], stand.programs, list(stand.cpus)))
                _let_work_wait(serving, ops)
                clients = holders(stand.programs.generator, serving.to, place)
                hall = stack.enter_context(clients)
                hall.fill(count)
                held[arm] = serving, hall
            for name, spread in SPREADS.items():
                for arm in arms:
                    parked = count if arm != AWAKE else 0
                    row = _cycles(*held[arm], count, parked, spread, ops)
                    yield {"arm": arm, "line": f"{name}: {arm}", **row}

    def brief(self, row: Row) -> str:
        return (
            f"{row['line']}: {row['cpu_us']:.2f} µs/request, {row['parkings']:.0f} parkings, "
            f"{row['moves']:.0f} moves, {row['wrong']} wrong"
        )

    def reading(self, rows: Rows) -> Iterator[str]:
        for name in SPREADS:
            parking, moving = of_parking(rows, name), of_moving(rows, name)
            text = f"{name.capitalize()}: a park and a wake-up cost {cell(parking, 1)} µs of CPU together"
            if moving:
                text += f"; a move {cell(moving, 1)} µs more, which {verdict(moving, MOVE_TARGET)}."
            yield text if moving else f"{text}; nothing moved, so the cost of a move is not known."

    def report(self, page: Page, rows: Rows) -> None:
        columns = (
            ("CPU of the lanes, µs/request", "cpu_us", 2),
            ("parkings", "parkings", 0),
            ("moves", "moves", 0),
            ("until all are answered, ms", "seconds", 1, 1e3 / CYCLES),
        )
        rows.table(page, columns, sorted(rows.lines()))


def of_parking(rows: Rows, spread: str) -> list[float]:
    """Microseconds of a park and a wake-up, by round."""
    return _difference(rows, f"{spread}: {PARKS}", f"{spread}: {AWAKE}", "parkings")


def of_moving(rows: Rows, spread: str) -> list[float]:
    """Microseconds of a move, by round, of those in which something moved."""
    return _difference(rows, f"{spread}: {PARKS_AND_MOVES}", f"{spread}: {PARKS}", "moves")


def _difference(rows: Rows, line: str, base: str, by: str) -> list[float]:
    """What the CPU time of a round is more than that of another line, for each of these events."""

    def select(of: str) -> list[Row]:
        return rows.record.select(part=rows.part, line=of)

    bases = {row["round"]: row["cpu_us"] for row in select(base)}
    return [
        (row["cpu_us"] - bases[row["round"]]) * row["requests"] / row[by]
        for row in select(line)
        if row[by] and row["round"] in bases
    ]


def _cycles(serving: Fleet, hall: Holders, count: int, parked: int, spread: float, ops: int) -> Row:
    """So many times: all connections ask while one lane is expected to have more to do, and rest again.

    It is the other one each time, and those who may move come back from there.
    """
    _rest(serving, parked)
    before, used = _counted(serving), serving.lanes_seconds()
    wrong, seconds = 0, 0.0
    for cycle in range(CYCLES):
        with _on_lane(serving, cycle % 2, ops):
            stage = hall.ask(spread)
        wrong += stage.count - len(stage.times("answered_ms"))
        seconds += stage.seconds
        _rest(serving, parked)
    requests, used = count * CYCLES, serving.lanes_seconds() - used
    found = {name: value - before[name] for name, value in _counted(serving).items()}
    if parked and found["parkings"] < 0.9 * requests:
        raise ToolError(f"{found['parkings']:.0f} connections parked in {requests} rests")
    cpu_us = used / requests * 1e6
    return {"requests": requests, "wrong": wrong, "cpu_us": cpu_us, "seconds": seconds, **found}


def _counted(serving: Fleet) -> dict[str, float]:
    return {"parkings": serving.total(PARKINGS), "moves": serving.total(MOVES)}


def _rest(serving: Fleet, parked: int) -> None:
    """Waits until so many are parked. At first without a look: metrics are the admin thread's work, but it
    may run where a lane does."""
    time.sleep(REST)
    serving.rest(parked)


def _let_work_wait(serving: Fleet, ops: int) -> None:
    """Makes every `/work` wait, after each lane has measured its cost.

    The expected work of a lane includes a request until its reply. So a request that waits sends all connections
    that wake on its lane to the other, without using CPU time.
    """
    for lane in (0, 1):
        with _on_lane(serving, lane, ops):
            pass
    connection = http.client.HTTPConnection(HOST, serving.admin_ports[0], timeout=PATIENCE)
    fault = {"route": "/work", "share": 1, "latency": {"fixed": WAIT}, "expires_in": "10m"}
    try:
        connection.request("PUT", "/faults", json.dumps({"faults": [fault]}))
        reply = connection.getresponse()
        if reply.status >= 300:
            raise ToolError(f"/faults: {reply.status} {reply.read().decode()}")
    finally:
        connection.close()


@contextmanager
def _on_lane(serving: Fleet, lane: int, ops: int) -> Iterator[None]:
    """A request begins on this lane before, and is answered after what is done meanwhile."""
    connection = _seated(serving, lane)
    try:
        connection.request("GET", f"/work?ops={ops}")
        yield
        reply = connection.getresponse()
        reply.read()
    finally:
        connection.close()
    found = reply.headers["corelane-lane"]
    if reply.status != 200 or found != str(lane):
        raise ToolError(f"/work on lane {lane}: {reply.status} from lane {found}")


def _seated(serving: Fleet, lane: int) -> http.client.HTTPConnection:
    """A new connection on this lane."""
    for _ in range(TRIES):
        connection = http.client.HTTPConnection(serving.to[0], timeout=PATIENCE)
        connection.request("GET", "/hello")
        reply = connection.getresponse()
        reply.read()
        if reply.headers["corelane-lane"] == str(lane):
            return connection
        connection.close()
    raise ToolError(f"{TRIES} connections in a row were not on lane {lane}")
