"""The ladder's part of the report of `idle`."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from loadtests.bench.text import spread, table

Climb = dict
Rung = dict
Record = dict


def every(record: Record) -> Iterator[Climb]:
    """All climbs of all servers."""
    for climbs in record["ladder"].values():
        yield from climbs


def rungs(climbs: Sequence[Climb]) -> list[tuple[Rung, ...]]:
    """Each rung as it was in all climbs."""
    return list(zip(*(climb["rungs"] for climb in climbs), strict=True))


def reading(record: Record) -> list[str]:
    """What the figures say, in sentences."""
    return [_sentence(name, climbs) for name, climbs in record["ladder"].items()]


def _sentence(name: str, climbs: Sequence[Climb]) -> str:
    first, *_, top = rungs(climbs)
    woken = [climb["woken"][0] for climb in climbs]
    answered, asked = (sum(one[what] for one in woken) for what in ("answered", "asked"))
    drains = [climb["drain"]["seconds"] for climb in climbs]
    return (
        f"{name.capitalize()}: {top[0]['connections']:,} connections in {climbs[0]['replicas']} replicas take "
        f"{_spread(top, _mib, 0)} MiB; live requests have p50 {_spread(top, _live('p50'), 2)} ms and p99 "
        f"{_spread(top, _live('p99'), 2)} ms beside them, with {first[0]['connections']:,} connections "
        f"{_spread(first, _live('p50'), 2)} and {_spread(first, _live('p99'), 2)}. One request on each takes "
        f"{_told([one['cpu_us'] for one in woken], 1)} µs of the servers' CPU ({answered:,} of {asked:,} "
        f"answered), and a drain with all of them {_told(drains, 2)} s."
    )


def markdown(record: Record) -> list[str]:
    """Headings, tables and how it is climbed."""
    plan = record["plan"]
    parts = [
        "## The ladder",
        "![Live requests and memory by connections](bench-idle.svg)",
        (
            f"Live requests come at {plan['rate']:,.0f}/s, open loop, over connections of their own. Figures are the "
            "median of the climbs, with the lowest and the highest in brackets where they differ."
        ),
    ]
    for name, climbs in record["ladder"].items():
        parts += [f"### {name}", _rungs(climbs), _top(climbs)]
    return [*parts, "## How the ladder is climbed", _method(record)]


Figure = Callable[[Rung], float]


def _live(name: str) -> Figure:
    return lambda rung: rung["live"][name]


def _mib(rung: Rung) -> float:
    return rung["resident_kib"] / 1024


def _spread(rung: Sequence[Rung], figure: Figure, digits: int) -> str:
    return _told([figure(one) for one in rung], digits)


def _told(values: Sequence[float], digits: int) -> str:
    """Of the climbs; one figure where they agree."""
    texts = {f"{value:,.{digits}f}" for value in values}
    return texts.pop() if len(texts) == 1 else spread(values, digits)


Column = tuple[str, Figure, int]

ALWAYS: list[Column] = [
    ("connections", lambda rung: rung["connections"], 0),
    ("parked", lambda rung: rung["parked"], 0),
    ("p50, ms", _live("p50"), 2),
    ("p99, ms", _live("p99"), 2),
    ("longest, ms", _live("max"), 1),
    ("CPU per live request, µs", lambda rung: rung["cpu_us"], 1),
    ("CPU of the wait alone, % of a core", lambda rung: rung["quiet_cores"] * 100, 2),
    ("servers, MiB", _mib, 0),
]

WITH_CONNECTIONS: list[Column] = [
    ("opened, /s", lambda rung: rung["opened"] / rung["seconds_to_open"], 0),
    ("KiB each", lambda rung: rung["kib_per_connection"], 2),
    ("kernel's objects, both ends, KiB each", lambda rung: rung["kernel_kib"]["slab"], 1),
    ("sockets' buffers, KiB each", lambda rung: rung["kernel_kib"]["buffers"], 2),
]


def _rungs(climbs: Sequence[Climb]) -> str:
    rows = [
        [
            *(_spread(rung, figure, digits) for _, figure, digits in ALWAYS),
            *(
                _spread(rung, figure, digits) if rung[0]["connections"] else "–"
                for _, figure, digits in WITH_CONNECTIONS
            ),
        ]
        for rung in rungs(climbs)
    ]
    return table([name for name, _, _ in (*ALWAYS, *WITH_CONNECTIONS)], rows)


def _top(climbs: Sequence[Climb]) -> str:
    head = ["at the top", "asked", "answered", "woken", "CPU each, µs", "p50, ms", "p99, ms"]
    head += ["longest, ms", "live p99, ms"]
    names = ("each connection asks once", "once more, beside live requests")
    rows = []
    for name, woken in zip(names, _woken(climbs), strict=True):
        counts = [
            f"{sum(one[what] for one in woken):,.0f}" for what in ("asked", "answered", "wakes")
        ]
        figures = (("cpu_us", 1), ("p50", 2), ("p99", 2), ("max", 1))
        times = [_spread(woken, lambda one, of=of: one[of], digits) for of, digits in figures]
        live = _spread(woken, _live("p99"), 2) if woken[0]["live"] else "–"
        rows.append([name, *counts, *times, live])
    drains = [climb["drain"] for climb in climbs]
    codes = [code for drain in drains for code in drain["exit_codes"]]
    ended = f"exit codes {codes}" if any(codes) else "all ended by themselves"
    left = sum(drain["still_open"] for drain in drains) or "none"
    after = median(climb["resident_kib_after"] for climb in climbs) / 1024
    return (
        f"{table(head, rows)}\n\nThe servers have {after:,.0f} MiB when all wait again. SIGTERM with "
        f"{drains[0]['connections']:,} connections: {ended} after {_told([one['seconds'] for one in drains], 2)} s, "
        f"and {left} of the connections stayed open."
    )


def _woken(climbs: Sequence[Climb]) -> list[tuple[dict, ...]]:
    """Each waking as it was in all climbs."""
    return list(zip(*(climb["woken"] for climb in climbs), strict=True))


def _method(record: Record) -> str:
    plan, cpus = record["plan"], record["cpus"]
    climbs = next(iter(record["ladder"].values()))
    return (
        f"A process here may have {record['files'] + 500:,} open files and cannot ask for more, so {climbs[0]['replicas']} replicas "
        f"with one lane each share CPU {cpus[0]}, all from the first rung on, and as many processes of the "
        f"generator with an address each hold the connections on CPU {cpus[1]}; connections go to the replicas in "
        "turn. All of it is in a network namespace that the run makes, over its loopback, with an accept queue "
        "of 16,384. A connection is opened as soon as one of 64 of its process has been answered, so the time to open "
        "is that of server and clients together. At each rung all connections are parked first, where they are "
        f"parked; then nobody asks for {plan['quiet']:g} s, which is the CPU of the wait alone; then come live requests for "
        f"{plan['seconds']:g} s. At the top every connection asks once, spread evenly at "
        f"{plan['waking']:,.0f}/s, and is parked again (that is in its CPU); then once more with live requests "
        "beside, whose CPU is shared out with theirs. A latency counts from when the request was due. The "
        f"drain has no time to settle (`drain.settle` 0s). Climbs of each: {len(climbs)}, in turns, each with servers of its own; the next "
        "turn begins with the server of the last."
    )
