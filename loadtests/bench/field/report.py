"""The report: where Corelane stands, and the tables of every part."""

from collections.abc import Iterator
from statistics import median

from loadtests.bench.experiment.page import LEGEND, Page, cell, middle, percent, verdict
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import CORELANE
from loadtests.bench.field import contender as parts
from loadtests.bench.field import mixes, rows, scaling
from loadtests.bench.field.contender import REQUESTS
from loadtests.bench.field.rows import BEHIND, FIRST, FLOOR, LEVEL, Place
from loadtests.bench.field.scaling import PUBLISHED

TARGET = 1.10
"""Most CPU time of `/hello`, in the floor's."""

BUSY = 0.9
"""Of its CPU; a server that was less busy in the closed loop was waiting for the generator."""

LATENCIES = {"p50": "p50, ms", "p99": "p99, ms", "p999": "p99.9, ms", "max": "max, ms"}


def page(title: str, record: Record) -> Page:
    """The report of a record."""
    found = Page(title, record, LEGEND, LEAD)
    found.section("Reading")
    points = [*_standings(record), *_floor(record), *mixes.reading(record, parts.MIXED)]
    found.points([*points, *_own(record), *found.quality()])
    _places(found, record)
    costs = _costs(record)
    if costs.panels:
        found.plot(costs)
    measured = record.labels("part")
    for part in (part for part in parts.PARTS if part in measured):
        title = rows.TITLES[part]
        found.section(title[0].upper() + title[1:], METHODS[part].format(**record.facts))
        TABLES[part](found, record, part)
    found.section("Contenders")
    _contenders(found, record)
    return found


def _standings(record: Record) -> Iterator[str]:
    kinds: dict[str, list[Place]] = {}
    for row, place in rows.places(record):
        kinds.setdefault(row.kind, []).append(place)
    for kind, found in kinds.items():
        first, level, behind = (
            sum(place.standing == standing for place in found)
            for standing in (FIRST, LEVEL, BEHIND)
        )
        yield (
            f"{kind}: Corelane is first in {first}, level with the best other in {level} and behind "
            f"in {behind} of {len(found)} rows."
        )


def _floor(record: Record) -> Iterator[str]:
    """How far Corelane is above the floor, and who is nearest."""
    for part in REQUESTS:
        above = {
            name: ratios
            for name in record.labels("server", part=part)
            if name != FLOOR and (ratios := _ratios(record, name, FLOOR, part))
        }
        if CORELANE not in above:
            continue
        nearest = sorted(above, key=lambda name: median(above[name]))[:4]
        told = ", ".join(f"{name} {median(above[name]):.2f}" for name in nearest)
        target = f", which {verdict(above[CORELANE], TARGET)}" if part == parts.HELLO else ""
        yield (
            f"CPU time of {rows.TITLES[part]}: {cell(above[CORELANE], 2)} times the floor{target}; "
            f"nearest to the floor are {told}."
        )


def _own(record: Record) -> Iterator[str]:
    """What the record says of its own limits."""
    busy = {
        name: record.values("busy", server=name, loop="closed") for name in record.labels("server")
    }
    limited = [name for name, found in busy.items() if found and min(found) < BUSY]
    if limited:
        yield (
            f"The generator was the limit, or near it, for {', '.join(limited)}. Their CPUs were less "
            f"than {BUSY:.0%} busy in a closed loop, and waking up is part of their CPU time."
        )
    for name in record.labels("server"):
        if found := record.values("compiling", server=name, loop="closed"):
            yield f"The compiler of {name} took {percent(found, 1, sign=False)} of the CPU time in closed loops."
    for row in record.rows:
        if "error" in row:
            yield f"{row['server']}, {row['part']}, round {row['round']}: {row['error']}"


def _places(page: Page, record: Record) -> None:
    found = {f"{row.title}: {row.name}": (row, place) for row, place in rows.places(record)}
    if not found:
        return
    page.section("Where Corelane stands", STANDING)

    def value(name: str, of_best: bool) -> str:
        row, place = found[name]
        return cell(row.all(place.best if of_best else CORELANE), row.digits)

    page.table(
        "",
        list(found),
        ("best other", lambda name: found[name][1].best),
        ("its figure", lambda name: value(name, True)),
        ("Corelane", lambda name: value(name, False)),
        ("× the best other", lambda name: cell(found[name][1].ratios, 2)),
        ("place", lambda name: f"{found[name][1].number} of {found[name][1].of}"),
        ("", lambda name: found[name][1].standing),
    )


def _costs(record: Record) -> Plot:
    panels = []
    for part in (part for part in REQUESTS if part in record.labels("part")):
        names = _ordered(record, "cpu_us", part=part, loop="closed")
        points = [(name, _values(record, "cpu_us", name, part, "closed")) for name in names]
        panels.append(Panel([Series("CPU time", points)], rows.TITLES[part], "µs", kind="bars"))
    return Plot("CPU time of a request on each server", panels, "cpu", columns=2)


def _requests(page: Page, record: Record, part: str) -> None:
    def closed(figure: str, name: str) -> list[float]:
        return _values(record, figure, name, part, "closed")

    page.table(
        "closed loop",
        _ordered(record, "cpu_us", part=part, loop="closed"),
        ("CPU, µs/request", lambda name: cell(closed("cpu_us", name), 2)),
        ("× floor", lambda name: cell(_ratios(record, name, FLOOR, part), 2)),
        (f"× {CORELANE}", lambda name: cell(_ratios(record, name, CORELANE, part), 2)),
        ("requests/s", lambda name: cell(closed("requests_per_second", name), 0)),
        ("CPU busy", lambda name: middle(closed("busy", name), 2)),
    )
    _latencies(page, record, part, "latency_ms", "open loop", loop="open")


def _latencies(page: Page, record: Record, part: str, figure: str, head: str, **more: str) -> None:
    def values(name: str, key: str) -> list[float]:
        return record.values(f"{figure}.{key}", server=name, part=part, **more)

    columns = [
        (title, lambda name, key=key: cell(values(name, key), 2))
        for key, title in LATENCIES.items()
    ]

    def busy(name: str) -> str:
        return middle(record.values("busy", server=name, part=part, **more), 2)

    names = _ordered(record, f"{figure}.p99", part=part, **more)
    page.table(head, names, *columns, ("CPU busy", busy))


def _idle(page: Page, record: Record, part: str) -> None:
    def values(figure: str, name: str) -> list[float]:
        return record.values(figure, server=name, part=part)

    page.table(
        "",
        _ordered(record, "kib_per_connection", part=part),
        ("start to first reply, ms", lambda name: cell(values("start_ms", name), 1)),
        ("resident when idle, MiB", lambda name: cell(values("resident_kib", name), 1, 1 / 1024)),
        ("idle connection, KiB", lambda name: cell(values("kib_per_connection", name), 2)),
    )


def _c10k(page: Page, record: Record, part: str) -> None:
    def values(name: str, figure: str, published: str = "") -> list[float]:
        if name in PUBLISHED:
            return [PUBLISHED[name][published]] if published in PUBLISHED[name] else []
        return record.values(figure, server=name, part=part)

    columns = [
        (title, lambda name, key=key: cell(values(name, f"latency_ms.{key}", key), 0))
        for key, title in LATENCIES.items()
    ]
    page.table(
        "",
        [*_ordered(record, "latency_ms.p99", part=part), *PUBLISHED],
        ("requests/s", lambda name: cell(values(name, "requests_per_second", "rate"), 0)),
        *columns,
        ("failed", lambda name: f"{sum(values(name, 'failed', 'failed')):,.0f}"),
        ("handshakes dropped", lambda name: cell(values(name, "dropped"), 0)),
    )


def _contenders(page: Page, record: Record) -> None:
    about = {name: one for name, one in record.facts["servers"].items() if "version" in one}
    page.table(
        "",
        list(about),
        ("family", lambda name: about[name]["family"]),
        ("version", lambda name: about[name]["version"]),
    )
    page.points(f"**{name}**: {one['settings']}" for name, one in about.items())


def _values(record: Record, figure: str, name: str, part: str, loop: str) -> list[float]:
    return record.values(figure, server=name, part=part, loop=loop)


def _ratios(record: Record, name: str, base: str, part: str) -> list[float]:
    both = {"part": part, "loop": "closed"}
    return record.ratios("cpu_us", {"server": name}, {"server": base}, **both)


def _ordered(record: Record, figure: str, **where: str) -> list[str]:
    """The servers with a figure, the least first."""
    found = {
        name: values
        for name in record.labels("server", **where)
        if (values := record.values(figure, server=name, **where))
    }
    return sorted(found, key=lambda name: median(found[name]))


TABLES = {
    **dict.fromkeys(REQUESTS, _requests),
    parts.MIXED: mixes.tables,
    parts.CORES: scaling.cores,
    parts.CONNECTIONS: scaling.connections,
    parts.IDLE: _idle,
    parts.C10K: _c10k,
}

LEAD = "[benchmarks.md](../benchmarks.md) has the method, its limits and the conclusions."

STANDING = (
    "Ranked by the median. *First* and *behind* need the agreement of all rounds; otherwise they are *level*. "
    "Two equal servers agree in all of n rounds at random once in 2^(n-1). The best of many equal servers is the "
    "luckiest one, so *behind* also needs each round to agree with the best other of the remaining rounds. The "
    "ratio is Corelane's figure divided by that of the best other: below 1 is better, for requests/s above 1. The floor "
    "is not a usable server, and no other server is built with a profile, so neither is ranked."
)

METHODS = {
    parts.HELLO: "A fixed reply of 13 bytes.",
    parts.DIV: "Half of a decimal of any length, exact: routing, a parameter and a little arithmetic.",
    parts.FILE_4K: "A static file of 4,096 bytes, as each server's project recommends; the floor from memory.",
    parts.FILE_10K: "A static file of 10,831 bytes, the index page.",
    parts.WORK: "A loop of arithmetic: here the server hardly matters.",
    parts.MIXED: mixes.METHOD,
    parts.CORES: scaling.CORES,
    parts.CONNECTIONS: scaling.CONNECTIONS,
    parts.IDLE: (
        "Time from the fork to the first correct reply. Memory of all processes then, with shared memory counted once. "
        "Memory that each of {connections:,} idle keep-alive connections adds, without the kernel's sockets."
    ),
    parts.C10K: (
        "`ab` with {connections:,} connections and 1.3 times as many requests for the index page, each on a new "
        "connection. The published test of C10k.jl did the same on another machine. If an accept queue "
        "is full, the kernel drops handshakes, which are repeated a second later. `ab` ends before that and counts "
        "none of these connections, so latencies with more than a hundredth dropped are not ranked."
    ),
}
