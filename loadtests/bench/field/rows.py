"""The rows that are ranked: one figure of one part, for each contender, round by round."""

from collections.abc import Iterator
from dataclasses import dataclass

from loadtests.bench.experiment.record import Record, figure_of
from loadtests.bench.experiment.servers import CORELANE
from loadtests.bench.field import contender as parts
from loadtests.bench.field.c10k import MOST_DROPPED
from loadtests.bench.field.contenders.corelane import TRAINED
from loadtests.bench.field.standing import Place, place
from loadtests.bench.field.workloads import REQUESTS

FLOOR = "floor"

ASIDE = {FLOOR, TRAINED}
"""Shown and not ranked."""

TITLES = {
    parts.HELLO: "`GET /hello`",
    parts.DIV: "`GET /div/4`",
    parts.FILE_4K: "a file of 4 KiB",
    parts.FILE_10K: "a file of 10.8 kB",
    parts.WORK: "`GET /work`",
    parts.MIXED: "cheap requests among expensive ones",
    parts.MIXED_TWO: "cheap requests among expensive ones on two CPUs",
    parts.FEW: "few connections on two CPUs",
    parts.CORES: "cores",
    parts.CONNECTIONS: "busy connections",
    parts.IDLE: "start and memory",
    parts.C10K: "10,000 connections at once",
}

OWN, LATENCY = "A server's own cost", "Latencies"


@dataclass
class Row:
    """Who takes how much."""

    title: str
    name: str
    kind: str
    values: dict[str, dict[int, float]]
    """By contender and round."""
    digits: int = 2
    more_is_better: bool = False

    def all(self, name: str) -> list[float]:
        """The values of all rounds."""
        return list(self.values[name].values())


def places(record: Record) -> Iterator[tuple[Row, Place]]:
    """Corelane's place in every row in which it and at least one other take part."""
    for row in _rows(record):
        if CORELANE in row.values and len(row.values) > 1:
            yield row, place(CORELANE, row.values, row.more_is_better)


def _rows(record: Record) -> Iterator[Row]:
    for part in REQUESTS:
        labels = {"part": part, "loop": "closed"}
        yield _row(record, "CPU per request, µs", OWN, "cpu_us", **labels)
        yield _rate(record, **labels)
        yield from _latencies(record, "latency_ms", "", part=part, loop="open")
    yield from _latencies(record, "cheap_ms", "cheap ", part=parts.MIXED)
    yield from _latencies(record, "expensive_ms", "expensive ", part=parts.MIXED)
    idle = {"part": parts.IDLE}
    yield _row(record, "start to first reply, ms", OWN, "start_ms", **idle)
    yield _row(record, "resident when idle, KiB", OWN, "resident_kib", **idle)
    yield _row(record, "idle connection, KiB", OWN, "kib_per_connection", **idle)
    yield _size(record)
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


def _size(record: Record) -> Row:
    sizes = {
        name: {1: sum(about["installed"][key] for key in ("program_bytes", "runtime_bytes")) / 1e6}
        for name, about in record.facts["servers"].items()
        if about.get("installed") and name not in ASIDE and " " not in name
    }
    return Row("size on disk", "installed, MB", OWN, sizes, digits=1)


def _dropped(record: Record) -> Iterator[str]:
    """Who had many handshakes dropped by the kernel, in any round."""
    for row in record.select(part=parts.C10K):
        if row.get("dropped", 0) > MOST_DROPPED * row.get("requests", 0):
            yield row["server"]
