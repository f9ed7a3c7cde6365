"""Writes the report: Corelane's places, and the tables of every part."""

from collections.abc import Iterator
from statistics import median

from loadtests.bench.competitors import competitor as parts
from loadtests.bench.competitors import ranking
from loadtests.bench.competitors.competitor import HELD, REQUESTS
from loadtests.bench.competitors.mixes import ALONE, FIRST, OPEN, SATURATED, STARVING
from loadtests.bench.competitors.ranking import BEHIND, FLOOR, LEVEL, TITLES
from loadtests.bench.experiment.page import Figure, Labels, Page, cell, verdict
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import CORELANE

QUANTILES = {"p50": "p50, ms", "p99": "p99, ms", "p999": "p99.9, ms", "max": "max, ms"}

LATENCIES = tuple(Figure(title, f"latency_ms.{key}") for key, title in QUANTILES.items())

CLOSED = (
    Figure("CPU, µs/request", "cpu_us"),
    Figure("× floor", "cpu_us", over={"server": FLOOR}),
    Figure(f"× {CORELANE}", "cpu_us", over={"server": CORELANE}),
    Figure("requests/s", "requests_per_second", 0),
    Figure("CPU busy", "busy", brief=True),
)

MIXED = (
    *(Figure(f"short {title}", f"cheap_ms.{key}") for key, title in QUANTILES.items()),
    Figure("p99 without long requests", "cheap_ms.p99", where={"loop": ALONE}),
    Figure("ratio", "cheap_ms.p99", 1, over={"loop": ALONE}),
    *(Figure(f"long {title}", f"expensive_ms.{key}", 1) for key, title in QUANTILES.items()),
    Figure("CPU busy", "busy", brief=True),
)

TOO_MUCH = (
    Figure("both kinds, requests/s", "requests_per_second", 0, where={"loop": SATURATED}),
    Figure("short requests offered, %", "offered", 0, 100),
    Figure("CPU for short requests, %", "cheap_share", 1, 100),
    Figure("CPU for long requests, %", "share", 1, 100),
    Figure("long requests/s", "expensive_per_second", 0),
    Figure("p99 of long requests, ms", "expensive_ms.p99", 0),
    Figure("rejected", "refused", 0),
    Figure("unanswered", "unanswered", 0),
    Figure("p99 of short requests, ms", "cheap_ms.p99", 0),
)

CORES = (
    Figure(
        "speed-up on 2 CPUs",
        "requests_per_second",
        where={"of": "work", "cpus": "2"},
        over={"cpus": "1"},
    ),
    *(
        Figure(f"CPU per request on {n}, µs", "cpu_us", where={"of": "hello", "cpus": n})
        for n in "12"
    ),
)

IDLE = (
    Figure("start to first response, ms", "start_ms", 1),
    Figure("resident when idle, MiB", "resident_kib", 1, 1 / 1024),
    Figure("idle connection, KiB", "kib_per_connection"),
)

C10K = (
    Figure("requests/s", "requests_per_second", 0),
    *(Figure(title, f"latency_ms.{key}", 0) for key, title in QUANTILES.items()),
    Figure("failed", "failed", 0),
    Figure("handshakes dropped", "dropped", 0),
)

TARGETS = {
    "p99 of short requests, ms": (0.5, Figure("", "cheap_ms.p99")),
    "p99.9 of short requests, ms": (2.0, Figure("", "cheap_ms.p999")),
    f"p99 of long requests × {HELD}": (1.25, Figure("", "expensive_ms.p99", over={"server": HELD})),
}


def verdicts(record: Record) -> Iterator[str]:
    kinds: dict[str, list[str]] = {}
    for row, place in ranking.places(record):
        kinds.setdefault(row.kind, []).append(place.standing)
    for kind, found in kinds.items():
        first, level, behind = (found.count(one) for one in (ranking.FIRST, LEVEL, BEHIND))
        yield (
            f"{kind}: across {len(found)} rows, Corelane wins {first}, ties {level} and loses {behind} "
            "against the best competitor."
        )
    hello: Labels = {"server": CORELANE, "part": parts.HELLO, "loop": "closed"}
    if ratios := CLOSED[1].values(record, hello):
        yield f"CPU time of {TITLES[parts.HELLO]} × floor: {verdict(ratios, 1.10)}."
    first = {"server": CORELANE, "part": parts.MIXED, "of": FIRST.name, "loop": OPEN}
    for title, (limit, figure) in TARGETS.items():
        if found := figure.values(record, first):
            yield f"{FIRST.name}: {title}: {verdict(found, limit)}."
    starving = {**first, "loop": STARVING}
    if found := record.values("share", **starving):
        yield f"CPU share of long requests while short requests starve them: {verdict(found, 0.15, least=True)}."
    for row in record.rows:
        if "error" in row:
            yield f"{row['server']}, {row['part']}, round {row['round']}: {row['error']}"


def report(page: Page, record: Record) -> None:
    _places(page, record)
    page.plot(_costs(record))
    for part in (part for part in parts.PARTS if part in record.labels("part")):
        title = TITLES[part]
        page.section(title[0].upper() + title[1:])
        if part in REQUESTS:
            closed = page.lines("server", part=part, loop="closed")
            page.figures("closed loop", _sorted(record, closed, CLOSED[0]), *CLOSED)
            latencies = page.lines("server", part=part, loop="open")
            page.figures("open loop", _sorted(record, latencies, LATENCIES[1]), *LATENCIES)
        elif part == parts.MIXED:
            _mixed(page, record)
        elif part == parts.CONNECTIONS:
            _connections(page, record)
        else:
            lines, columns = page.lines("server", part=part), TABLES[part]
            page.figures(
                "", _sorted(record, lines, columns[-1 if part == parts.IDLE else 0]), *columns
            )
    page.section("Competitors")
    about = {name: one for name, one in record.facts["servers"].items() if "version" in one}
    page.table(
        "",
        list(about),
        ("family", lambda name: about[name]["family"]),
        ("version", lambda name: about[name]["version"]),
    )
    page.points(f"**{name}**: {one['settings']}" for name, one in about.items())


TABLES = {parts.CORES: CORES, parts.IDLE: IDLE, parts.C10K: C10K}


def _sorted(record: Record, lines: dict[str, Labels], by: Figure) -> dict[str, Labels]:
    found = {name: values for name in lines if (values := by.values(record, lines[name]))}
    return {name: lines[name] for name in sorted(found, key=lambda name: median(found[name]))}


def _places(page: Page, record: Record) -> None:
    found = {f"{row.title}: {row.name}": (row, place) for row, place in ranking.places(record)}
    if not found:
        return
    page.section("Rank of Corelane")

    def value(name: str, server: str) -> str:
        row = found[name][0]
        return cell(list(row.values[server].values()), row.digits)

    page.table(
        "",
        list(found),
        ("best competitor", lambda name: found[name][1].best),
        ("best competitor's figure", lambda name: value(name, found[name][1].best)),
        ("Corelane", lambda name: value(name, CORELANE)),
        ("× best competitor", lambda name: cell(found[name][1].ratios, 2)),
        ("rank", lambda name: f"{found[name][1].number} of {found[name][1].of}"),
        ("", lambda name: found[name][1].standing),
    )


def _costs(record: Record) -> Plot:
    panels = []
    for part in (part for part in REQUESTS if part in record.labels("part")):
        servers = record.labels("server", part=part, loop="closed")
        lines = {name: {"server": name, "part": part, "loop": "closed"} for name in servers}
        lines = _sorted(record, lines, CLOSED[0])
        points = [(name, CLOSED[0].values(record, line)) for name, line in lines.items()]
        panels.append(Panel([Series("CPU time", points)], TITLES[part], "µs", kind="bars"))
    return Plot("CPU time of a request on each server", panels, "cpu", columns=2)


def _mixed(page: Page, record: Record) -> None:
    panels = []
    for name in record.labels("of", part=parts.MIXED):
        page.section(name, level=3)
        lines = page.lines("server", part=parts.MIXED, of=name, loop=OPEN)
        lines = _sorted(record, lines, MIXED[1])
        page.figures("ms", lines, *MIXED)
        points = [(server, MIXED[1].values(record, line)) for server, line in lines.items()]
        panels.append(Panel([Series("p99 of short requests", points)], name, "ms", log="x"))
    page.plot(Plot("Short requests among long ones on one CPU", panels, "mixed", columns=2))
    page.section("Too much load", level=3)
    page.figures(
        "", page.lines("server", part=parts.MIXED, of=FIRST.name, loop=STARVING), *TOO_MUCH
    )


def _connections(page: Page, record: Record) -> None:
    counts = record.labels("of", part=parts.CONNECTIONS)
    lines = page.lines("server", part=parts.CONNECTIONS)
    costs = [Figure(f"{int(of):,}", "cpu_us", where={"of": of}, brief=True) for of in counts]
    page.figures("CPU per request, µs", lines, *costs)
    memory = [Figure(f"{int(of):,}", "kib_each", where={"of": of}, brief=True) for of in counts]
    page.figures("KiB per connection", lines, *memory)
    series = [
        Series(name, [(int(one.where["of"]), one.values(record, line)) for one in costs])
        for name, line in lines.items()
    ]
    panel = Panel(series, x="connections", y="µs", kind="lines", log="x")
    page.plot(Plot("CPU time per request by number of connections", [panel], "connections"))
