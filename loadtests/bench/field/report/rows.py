"""The rows of the comparison: one measure of one workload, for each contender, round by round."""

from dataclasses import dataclass, replace
from statistics import median

from loadtests.bench.field.report import measures
from loadtests.bench.field.report.measures import LATENCY, Measure, Sample

US = "corelane-server"
FLOOR = "floor"
GATEWAY = "corelane-gateway"

ASIDE = (FLOOR, "corelane-server, PGO")
"""Shown and not ranked: the floor is no server, and the peers are built without a profile."""

WORKLOADS = {
    "hello": "`GET /hello`",
    "div": "`GET /div/4`",
    "file-4k": "a file of 4 KiB",
    "file-10k": "a file of 10.8 kB",
    "work": "`GET /work`",
    "projects": "projects on PostgreSQL",
}
"""Those with a closed and an open loop, in the order of the report."""

MIXED, IDLE, SIZE, C10K, PROXIES = "mixed", "idle", "size", "c10k", "proxies"

TITLES = {
    **WORKLOADS,
    MIXED: "mixed load",
    IDLE: "start and memory",
    SIZE: "size on disk",
    C10K: "10,000 connections at once",
    PROXIES: "proxies",
}

Taken = dict[str, list[Sample]]
"""The samples of each contender."""


@dataclass(frozen=True)
class Row:
    """Who takes how much."""

    workload: str
    measure: Measure
    values: dict[str, dict[int, float]]
    """By contender and round."""
    apart: frozenset[str] = frozenset()
    """Shown and not ranked in this row, beside those that are in none."""

    @property
    def us(self) -> str:
        """Corelane's part in it."""
        return GATEWAY if self.workload == PROXIES else US

    @property
    def key(self) -> str:
        """As reasons name it."""
        return f"{self.workload}.{self.measure.key}"

    def all(self, name: str) -> list[float]:
        """The values of all rounds."""
        return list(self.values[name].values())

    def median(self, name: str) -> float:
        """Of the rounds."""
        return median(self.all(name))

    def ratios(self, name: str, base: str) -> list[float]:
        """Its value in that of another, within each round that has both."""
        mine, other = self.values.get(name, {}), self.values.get(base, {})
        return [mine[number] / other[number] for number in mine if other.get(number)]

    def ordered(self) -> list[str]:
        """All, the best first."""
        return sorted(self.values, key=self.median, reverse=self.measure.more_is_better)

    def ranked(self) -> list[str]:
        """Those that compete, the best first."""
        return [name for name in self.ordered() if name not in (*ASIDE, *self.apart)]


def samples(record: dict, workload: str) -> Taken:
    """What the record has of a workload."""
    if workload in WORKLOADS:
        found = record.get("cells", {}).get(workload, {})
    elif workload == SIZE:
        found = {
            name: [_size(one["installed"])]
            for name, one in record.get("contenders", {}).items()
            if one.get("installed") and name != FLOOR
        }
    elif workload == C10K:
        found = {
            name: [with_latency(one) for one in taken]
            for name, taken in record.get(C10K, {}).items()
        }
    else:
        found = record.get(workload, {})
    return {name: taken for name, taken in found.items() if taken}


def rows(taken: Taken, workload: str, chosen: tuple[Measure, ...]) -> list[Row]:
    """A row for each measure that any sample has."""
    found = []
    for measure in chosen:
        values = {name: _values(samples, measure) for name, samples in taken.items()}
        values = {name: by_round for name, by_round in values.items() if by_round}
        if values:
            found.append(Row(workload, measure, values))
    return found


COMPARED = {
    **dict.fromkeys(WORKLOADS, measures.CELLS),
    MIXED: measures.MIXED,
    IDLE: measures.IDLE,
    SIZE: (measures.TOTAL,),
    C10K: measures.C10K,
    PROXIES: measures.PROXIES,
}
"""By workload the measures in which somebody is first."""


def of_workload(record: dict, workload: str) -> list[Row]:
    """The rows of one workload."""
    taken = samples(record, workload)
    found = rows(taken, workload, COMPARED[workload])
    if workload != C10K:
        return found
    apart = frozenset(name for name in taken if name != US and is_unheard(taken[name]))
    return [replace(row, apart=apart) if row.measure.kind == LATENCY else row for row in found]


MOST_DROPPED = 0.01
"""Of a run's requests: with more handshakes dropped, latencies are of the few that got in."""


def is_unheard(taken: list[Sample]) -> bool:
    """Whether the kernel dropped many of the handshakes with a contender, in any round."""
    return any(one.get("dropped", 0) > MOST_DROPPED * one.get("requests", 0) for one in taken)


def compared(record: dict) -> list[Row]:
    """All rows in which Corelane and at least one other take part."""
    every = [row for workload in COMPARED for row in of_workload(record, workload)]
    return [row for row in every if row.us in row.values and len(row.ranked()) > 1]


def numbered(taken: list[Sample]) -> dict[int, Sample]:
    """Samples by round; by their place where they do not tell it."""
    return {sample.get("round", place): sample for place, sample in enumerate(taken, 1)}


def _values(taken: list[Sample], measure: Measure) -> dict[int, float]:
    found = {number: measure.of(sample) for number, sample in numbered(taken).items()}
    return {number: value for number, value in found.items() if value is not None}


def _size(installed: dict) -> Sample:
    return {**installed, "total_bytes": installed["program_bytes"] + installed["runtime_bytes"]}


def with_latency(sample: Sample) -> Sample:
    """The latencies that have a name, out of the curve."""
    curve = dict(map(tuple, sample.get("percentiles", [])))
    names = {"p50": 50, "p99": 99, "p999": 99.9, "max": 100}
    latency = {name: curve[percent] for name, percent in names.items() if percent in curve}
    return {**sample, "latency_ms": latency}
