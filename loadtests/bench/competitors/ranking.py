"""Ranks the rows: Corelane's rank per round, for one result of one part."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from loadtests.bench.competitors import competitor as parts
from loadtests.bench.competitors.competitor import HELD, REQUESTS
from loadtests.bench.experiment.record import Record, figure_of
from loadtests.bench.experiment.servers import CORELANE

FLOOR = "floor"

MOST_DROPPED = 0.01
"""Share of a run's requests. If more handshakes than this are dropped, latencies describe only the
few accepted connections.
"""

ASIDE = {FLOOR, HELD}
"""Servers that are shown but not ranked."""

TITLES = {
    parts.HELLO: "`GET /hello`",
    parts.DIV: "`GET /div/4`",
    parts.FILE_4K: "a 4 KiB file",
    parts.FILE_10K: "a 10.8 kB file",
    parts.WORK: "`GET /work`",
    parts.MIXED: "short requests among long ones",
    parts.CORES: "cores",
    parts.CONNECTIONS: "busy connections",
    parts.IDLE: "start and memory",
    parts.C10K: "10,000 connections at once",
}

OWN, LATENCY = "A server's own cost", "Latencies"


@dataclass
class Row:
    title: str
    name: str
    kind: str
    values: dict[str, dict[int, float]]
    digits: int = 2
    more_is_better: bool = False


FIRST, LEVEL, BEHIND = "first", "level", "behind"

Rounds = Mapping[int, float]


@dataclass(frozen=True)
class Place:
    best: str
    number: int
    of: int
    ratios: list[float]
    """Corelane's value relative to the best competitor's in each round; empty if the latter is 0.
    """
    standing: str


def places(record: Record) -> Iterator[tuple[Row, Place]]:
    """Corelane's place in every row that includes it and at least one other server."""
    for row in _rows(record):
        if CORELANE in row.values and len(row.values) > 1:
            yield row, place(CORELANE, row.values, row.more_is_better)


def _rows(record: Record) -> Iterator[Row]:
    for part in REQUESTS:
        labels = {"part": part, "loop": "closed"}
        yield _row(record, "CPU per request, µs", OWN, "cpu_us", **labels)
        yield _rate(record, **labels)
        yield from _latencies(record, "latency_ms", "", part=part, loop="open")
    for of in record.labels("of", part=parts.MIXED):
        labels = {"part": parts.MIXED, "of": of}
        for kind, figure in {"short": "cheap_ms", "long": "expensive_ms"}.items():
            yield from _latencies(record, figure, f"{of}, {kind} ", **labels, loop="open")
    yield _rate(record, part=parts.MIXED, loop="saturated")
    idle = {"part": parts.IDLE}
    yield _row(record, "start to first reply, ms", OWN, "start_ms", **idle)
    yield _row(record, "resident when idle, KiB", OWN, "resident_kib", **idle)
    yield _row(record, "idle connection, KiB", OWN, "kib_per_connection", **idle)
    yield _rate(record, part=parts.C10K)
    for row in _latencies(record, "latency_ms", "", part=parts.C10K):
        dropped = set(_dropped(record))
        row.values = {name: found for name, found in row.values.items() if name not in dropped}
        yield row


def _row(record: Record, name: str, kind: str, figure: str, **labels: str) -> Row:
    values: dict[str, dict[int, float]] = {}
    for row in record.select(**labels):
        if row["server"] not in ASIDE and (value := figure_of(row, figure)) is not None:
            values.setdefault(row["server"], {})[row["round"]] = value
    return Row(TITLES[labels["part"]], name, kind, values)


def _rate(record: Record, **labels: str) -> Row:
    row = _row(record, "requests/s", OWN, "requests_per_second", **labels)
    row.digits, row.more_is_better = 0, True
    return row


def _latencies(record: Record, figure: str, before: str, **labels: str) -> Iterator[Row]:
    for key, name in {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "max"}.items():
        yield _row(record, f"{before}{name}, ms", LATENCY, f"{figure}.{key}", **labels)


def _dropped(record: Record) -> Iterator[str]:
    """Servers that lost many handshakes in the kernel in any round."""
    for row in record.select(part=parts.C10K):
        if row.get("dropped", 0) > MOST_DROPPED * row.get("requests", 0):
            yield row["server"]


def place(us: str, values: Mapping[str, Rounds], more_is_better: bool = False) -> Place:
    """The place of `us`: first if better than the best competitor in all rounds; behind if worse
    in all rounds and worse than each round's rival; otherwise level.
    """

    def behind(ratio: float) -> float:
        """Above 1 if Corelane is worse."""
        return 1 / ratio if more_is_better and ratio else ratio

    def loses(number: int) -> bool:
        other = others[_rival(others, number, more_is_better)].get(number)
        return not other or behind(values[us][number] / other) > 1

    ordered = sorted(values, key=lambda name: median(values[name].values()), reverse=more_is_better)
    others = {name: values[name] for name in ordered if name != us}
    best = next(iter(others))
    ratios = [
        value / others[best][number]
        for number, value in values[us].items()
        if others[best].get(number)
    ]
    losses = [behind(ratio) for ratio in ratios]
    standing = LEVEL
    if losses and max(losses) < 1:
        standing = FIRST
    elif losses and min(losses) > 1 and all(map(loses, values[us])):
        standing = BEHIND
    return Place(best, ordered.index(us) + 1, len(ordered), ratios, standing)


def _rival(others: Mapping[str, Rounds], number: int, more_is_better: bool) -> str:
    """The best competitor in all rounds except this one. If the same rounds were used to choose and
    to judge, lucky servers would be favoured. Of eleven equal servers, each lost to such a choice
    in a third of the rows.
    """
    there = {name: found for name, found in others.items() if number in found} or others
    rest = {
        name: [value for other, value in found.items() if other != number]
        for name, found in there.items()
    }
    # The second form is for a run with only one round.
    seen = {name: found for name, found in rest.items() if found} or {
        name: list(found.values()) for name, found in there.items()
    }
    best = max if more_is_better else min
    return best(seen, key=lambda name: median(seen[name]))
