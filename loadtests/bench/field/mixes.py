"""Two kinds of requests on one CPU: what the short ones pay for the long ones.

And what the long ones get when the short ones would take the whole CPU."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from loadtests.bench.experiment.generator import CONNECTIONS, Generator, measured
from loadtests.bench.experiment.page import Page, cell, middle, percent, verdict
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import CORELANE
from loadtests.bench.field.contender import HELD, work_reply
from loadtests.bench.field.rows import FLOOR
from loadtests.bench.field.stand import FieldStand, Running

BUSY = 0.7
"""Of the CPU, by both kinds together."""

OVER = 1.5
"""Of what the CPU can do, where the load is too much."""

HELLO_MS = 0.02
"""About what `/hello` takes with waking up: nearly nothing compared with the long ones."""

OPEN, ALONE, SATURATED, STARVING = "open", "alone", "saturated", "starving"

SECONDS = {OPEN: 3.0, ALONE: 1.2, SATURATED: 1.8, STARVING: 2.5}

WARM_UP, BRIEFLY = 0.6, 0.5
"""Seconds before each load, in which a server may learn what the kinds cost, and of the load that finds what
short requests cost."""

CROWD = 512
"""Connections of the short ones meanwhile: whenever a long one ends, so many wait."""

SENDERS = 4
"""Connections of the long requests that starve."""

QUANTILES = {"p50": "50", "p99": "99", "p999": "99.9", "max": "100"}


@dataclass(frozen=True)
class Mix:
    """How many requests are long, and how long each kind takes."""

    name: str
    share: float
    long_ms: float
    short_ms: float = 0.0
    """0 is `/hello`."""

    def rate(self, busy: float) -> float:
        """Requests per second that keep so much of a CPU busy."""
        mean = self.share * self.long_ms + (1 - self.share) * (self.short_ms or HELLO_MS)
        return round(1e3 * busy / mean, 1)

    def options(self, stand: FieldStand) -> Mapping[str, object]:
        """Of the load generator."""
        options = {"ops": stand.ops(self.long_ms), "work_share": self.share}
        if not self.short_ms:
            return options
        # On a path of its own: routes are what a server can tell kinds by.
        ops = stand.ops(self.short_ms)
        file = stand.folder / f"work-{ops}"
        if not file.exists():
            file.write_bytes(work_reply(ops))
        return {**options, "page": f"/work/short?ops={ops}", "file": file}


FIRST = Mix("10% of 7 ms", 0.1, 7.0)

CROWDED = Mix("crowded", 0.0, FIRST.long_ms, 0.05)
"""Short ones that take the server longer than the generator, so that one CPU can send 1.5 times as many."""

MIXES = {
    mix.name: mix
    for mix in (
        FIRST,
        Mix("2% x 20", 0.02, 20.0, 1.0),
        Mix("10% x 10", 0.1, 10.0, 1.0),
        Mix("1% x 100", 0.01, 100.0, 1.0),
    )
}
"""By name, in the order of the report."""


def measure(stand: FieldStand, process: Running, number: int) -> Iterator[Row]:
    """The part `mixed`."""
    for mix in MIXES.values():
        rate, options = mix.rate(BUSY), mix.options(stand)
        yield _open(stand, process, mix, OPEN, rate, number, options)
        short = {**options, "work_share": 0.0}
        yield _open(stand, process, mix, ALONE, rate * (1 - mix.share), number, short)
    yield _open(stand, process, FIRST, SATURATED, FIRST.rate(OVER), number, FIRST.options(stand))
    yield _starving(stand, process, number)


def _open(
    stand: FieldStand,
    process: Running,
    mix: Mix,
    loop: str,
    rate: float,
    number: int,
    options: Mapping[str, object],
) -> Row:
    """An open loop, whose latencies count from when a request was due."""
    row = measured(
        process,
        stand.generator,
        stand.place(process, first=True),
        "open",
        seconds=stand.plan.seconds(SECONDS[loop]),
        warm_up=stand.plan.seconds(WARM_UP, 0.2),
        seed=number,
        rate=rate,
        **options,
    )
    right = (row["requests"] - row["wrong"]) / row["seconds"]
    latencies = {"cheap_ms": _latency(row, "hello"), "expensive_ms": _latency(row, "work")}
    return {
        "of": mix.name,
        "loop": loop,
        **row,
        "rate": rate,
        "requests_per_second": right,
        **latencies,
    }


def _starving(stand: FieldStand, process: Running, number: int) -> Row:
    """Long requests, one after the other on few connections, while short ones would take the CPU 1.5 times."""
    seconds, options = stand.plan.seconds(SECONDS[STARVING]), CROWDED.options(stand)
    short = {"page": options["page"], "file": options["file"]}
    alone = measured(
        process,
        stand.generator,
        stand.place(process),
        "closed",
        seconds=stand.plan.seconds(BRIEFLY),
        warm_up=stand.plan.seconds(BRIEFLY, 0.1),
        spin=True,
        **short,
    )
    # By the CPU time: replies per second would also depend on who else uses the CPU.
    short |= {"rate": round(OVER * 1e6 / alone["cpu_us"], 1), "seed": number, "cut": True}
    loads = {
        "open": {**short, "work_share": 0.0, "connections": CROWD},
        "closed": {"ops": options["ops"], "connections": SENDERS},
    }
    with ExitStack() as stack:
        cheap, dear = (
            stack.enter_context(
                Generator(
                    stand.generator,
                    stand.place(process, first=True),
                    mode,
                    process.address,
                    seconds=seconds,
                    warm_up=0.1,
                    **load,
                )
            )
            for mode, load in loads.items()
        )
        cheap.tell("")
        dear.tell("")
        found, beside = dear.answer(), cheap.answer()
    done, cheaply = (load["requests"] - load["wrong"] for load in (found, beside))
    silent = found["faults"].get("silence", 0)
    return {
        "of": FIRST.name,
        "loop": STARVING,
        "requests": found["requests"] + beside["requests"],
        "wrong": found["wrong"] + beside["wrong"],
        "short_us": alone["cpu_us"],
        "offered": (beside["requests"] + beside["cut"]) * alone["cpu_us"] / 1e6 / seconds,
        "lag_ms": beside["lag_us"]["99"] / 1e3,
        "share": done * FIRST.long_ms / 1e3 / found["seconds"],
        "expensive_per_second": done / found["seconds"],
        "expensive_ms": _latency(found, "work"),
        "refused": found["wrong"] - silent,
        "unanswered": silent,
        "cheap_per_second": cheaply / beside["seconds"],
        "cheap_share": cheaply * alone["cpu_us"] / 1e6 / beside["seconds"],
        "cheap_ms": _latency(beside, "hello"),
    }


def _latency(row: Row, kind: str) -> Mapping[str, float]:
    """Milliseconds by percentile; nothing if no reply was right."""
    found = row["latency_us"].get(kind)
    return {name: found[key] / 1e3 for name, key in QUANTILES.items()} if found else {}


SHORT_P99_MS, SHORT_P999_MS, OF_BEST, OF_ALONE, LONGER, KEPT, LEFT = (
    0.5,
    2.0,
    0.1,
    2.0,
    1.25,
    0.97,
    0.15,
)
"""Targets. The p99 and p99.9 of short requests in ms; the p99 in that of the best peer, and in their own without long ones.

The p99 of long requests and the throughput: in those of a held lane. What long requests get of the CPU while short
ones starve them: the default of `slow_lanes.share`."""


def reading(record: Record, part: str) -> Iterator[str]:
    """What the figures say of Corelane's targets."""
    for name in record.labels("of", part=part):
        best = _best(record, part, name)
        ours = _figure(record, CORELANE, part, name, "cheap_ms.p99")
        if not ours:
            continue
        told = [f"the p99 of short requests is {cell(ours, 2)} ms"]
        if name == FIRST.name:
            told[0] += f", which {verdict(ours, SHORT_P99_MS)} ms"
            tail, alone = (
                _figure(record, CORELANE, part, name, "cheap_ms.p999", loop)
                for loop in (OPEN, ALONE)
            )
            told.append(
                f"their p99.9 is {cell(tail, 2)} ms, which {verdict(tail, SHORT_P999_MS)} ms, and "
                f"{cell(alone, 2)} ms without long ones"
            )
        else:
            both = {"part": part, "of": name, "server": CORELANE}
            alone = record.ratios("cheap_ms.p99", {"loop": OPEN}, {"loop": ALONE}, **both)
            told.append(
                f"{cell(alone, 2)} of that without long ones, which {verdict(alone, OF_ALONE)}"
            )
        if ratios := _ratios(record, "cheap_ms.p99", best, part, name):
            told.append(
                f"{cell(ratios, 2)} of that of {best}, the best other, which {verdict(ratios, OF_BEST)}"
            )
        yield f"{name}: {'; '.join(told)}."
        if held := _ratios(record, "expensive_ms.p99", HELD, part, name):
            yield (
                f"{name}: the p99 of long requests is {cell(held, 2)} of that of {HELD}, which "
                f"{verdict(held, LONGER)}."
            )
    if kept := _ratios(record, "requests_per_second", HELD, part, FIRST.name, SATURATED):
        yield (
            f"Saturated with {FIRST.name}: throughput is {cell(kept, 3)} of that of {HELD}, which "
            f"{verdict(kept, KEPT, least=True)}."
        )
    if left := _figure(record, CORELANE, part, FIRST.name, "share", STARVING):
        silent = sum(_figure(record, CORELANE, part, FIRST.name, "unanswered", STARVING))
        yield (
            f"Starved by short requests of {OVER:.0%} of the CPU: long ones get {cell(left, 3)} of it, which "
            f"{verdict(left, LEFT, least=True)}; {silent:,.0f} were not answered."
        )


def _best(record: Record, part: str, name: str) -> str:
    """The server of the others whose short requests have the least p99. The floor is none."""
    found = {
        server: values
        for server in record.labels("server", part=part, of=name)
        if not server.startswith((CORELANE, FLOOR))
        and (values := _figure(record, server, part, name, "cheap_ms.p99"))
    }
    return min(found, key=lambda server: median(found[server]), default="")


def _figure(
    record: Record, server: str, part: str, of: str, figure: str, loop: str = OPEN
) -> list[float]:
    return record.values(figure, server=server, part=part, of=of, loop=loop)


def _ratios(
    record: Record, figure: str, base: str, part: str, of: str, loop: str = OPEN
) -> list[float]:
    """Corelane's figure in that of another, round by round."""
    both = {"part": part, "of": of, "loop": loop}
    return record.ratios(figure, {"server": CORELANE}, {"server": base}, **both)


def tables(page: Page, record: Record, part: str) -> None:
    """The part `mixed`."""
    panels = []
    for name in record.labels("of", part=part):
        servers = _ordered(record, part, name)
        page.section(name, LENGTHS[bool(MIXES[name].short_ms)], level=3)
        _latencies(page, record, part, name, servers)
        points = [
            (server, _figure(record, server, part, name, "cheap_ms.p99")) for server in servers
        ]
        panels.append(Panel([Series("p99 of short requests", points)], name, log="x"))
    if not panels:
        return
    panels[-1].x = panels[-2 if len(panels) > 1 else -1].x = "ms"
    page.plot(Plot("Short requests among long ones on one CPU", panels, "mixed", columns=2))
    _limits(page, record, part)


def _latencies(page: Page, record: Record, part: str, name: str, servers: list[str]) -> None:
    def value(figure: str, loop: str = OPEN, digits: int = 2):
        return lambda server: cell(_figure(record, server, part, name, figure, loop), digits)

    def of_alone(server: str) -> str:
        both = {"part": part, "of": name, "server": server}
        return cell(record.ratios("cheap_ms.p99", {"loop": OPEN}, {"loop": ALONE}, **both), 1)

    def busy(server: str) -> str:
        return middle(_figure(record, server, part, name, "busy"), 2)

    quantiles = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
    page.table(
        "ms",
        servers,
        *((f"short {its}", value(f"cheap_ms.{key}")) for key, its in quantiles.items()),
        ("p99 without long ones", value("cheap_ms.p99", ALONE)),
        ("ratio", of_alone),
        *(
            (f"long {its}", value(f"expensive_ms.{key}", digits=1))
            for key, its in quantiles.items()
        ),
        ("CPU busy", busy),
    )


def _limits(page: Page, record: Record, part: str) -> None:
    """Saturation and starvation."""
    page.section("Too much load", LIMITS, level=3)

    def saturated(server: str) -> list[float]:
        return _figure(record, server, part, FIRST.name, "requests_per_second", SATURATED)

    def starving(server: str, figure: str) -> list[float]:
        return _figure(record, server, part, FIRST.name, figure, STARVING)

    def share(figure: str):
        return lambda name: percent(starving(name, figure), 1, sign=False)

    names = [name for name in record.labels("server", part=part) if saturated(name)]
    page.table(
        "",
        names,
        ("both kinds, requests/s", lambda name: cell(saturated(name), 0)),
        ("offered short ones", share("offered")),
        ("CPU for short ones", share("cheap_share")),
        ("CPU for long ones", share("share")),
        ("long ones/s", lambda name: cell(starving(name, "expensive_per_second"), 0)),
        ("their p99, ms", lambda name: cell(starving(name, "expensive_ms.p99"), 0)),
        ("longest, ms", lambda name: cell(starving(name, "expensive_ms.max"), 0)),
        ("rejected", lambda name: f"{sum(starving(name, 'refused')):,.0f}"),
        ("unanswered", lambda name: f"{sum(starving(name, 'unanswered')):,.0f}"),
        ("p99 of short ones, ms", lambda name: cell(starving(name, "cheap_ms.p99"), 0)),
    )


def _ordered(record: Record, part: str, name: str) -> list[str]:
    """The servers, that with the least p99 of short requests first."""
    found = {
        server: values
        for server in record.labels("server", part=part, of=name)
        if (values := _figure(record, server, part, name, "cheap_ms.p99"))
    }
    return sorted(found, key=lambda server: median(found[server]))


LENGTHS = {
    False: "Short requests are `/hello`.",
    True: "Short requests take 1 ms. They have a route of their own, `/work/short`.",
}

METHOD = (
    f"Open loop: long requests are `/work`, and both kinds together keep {BUSY:.0%} of one CPU busy. The short ones are "
    "also measured alone at the same rate."
)

LIMITS = (
    f"*Both kinds*: an open loop of {OVER:.0%} of what the CPU can do, on {CONNECTIONS} connections, until every request "
    f"is answered. The other rows: {SENDERS} connections send long requests of {FIRST.long_ms:g} ms, each after the reply "
    f"to the last. Meanwhile an open loop of short ones, which compute for {CROWDED.short_ms:g} ms, on {CROWD} connections "
    f"would take {OVER:.0%} of the CPU. What a short one takes is the CPU time in a closed loop just before, when the "
    "server knows both kinds. Its latency counts from when it was due, so it grows while the load lasts. *Rejected*: long "
    "requests with another reply than the right one, such as at their deadline."
)
