"""How cost grows with cores and connections, up to 10,000 at once with ab: the published C10k test."""

import csv
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median

from loadtests.bench import ab
from loadtests.bench.experiment.page import Page, cell, middle
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.field.contender import FILE_10K, REQUESTS
from loadtests.bench.field.stand import FieldStand, Running, check
from loadtests.bench.networks import counters
from tools import resolve

EACH = 1.3
"""Requests for each connection: 13,000 for 10,000."""

LONGEST = 30
"""Seconds of one run; what is not answered then has failed."""

WARM_UP = 8.0
"""Longest load before it, for those whose code is compiled while it runs."""

PERCENTS = {"p50": 50.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
FINE = 99.9
"""A percent that ab does not tell itself."""

MOST_DROPPED = 0.01
"""Of a run's requests: with more handshakes dropped, latencies are of the few that got in."""

PAGE = REQUESTS[FILE_10K]

PUBLISHED = {
    "C10k.jl, published": {"p50": 106, "p99": 6681, "max": 6704, "rate": 1912, "failed": 0},
    "Apache, published": {"p50": 89, "p99": 1085, "max": 21092, "rate": 614, "failed": 151},
    "http-server, published": {"p50": 610, "p99": 1952, "max": 2059, "rate": 4084, "failed": 0},
}
"""Figures of C10k.jl's own test, on its author's machine: `ab -n 13000 -c 10000` of a page of 10,831 bytes."""


def measure(stand: FieldStand, process: Running, _round: int) -> Iterator[Row]:
    """One run of ab. A reply that is not the file is a ToolError: ab compares lengths only."""
    program = resolve.ensure(["ab"])["ab"]
    stand.warm_up(process, WARM_UP)
    check(process, PAGE)
    before = dropped()
    row = _ab(stand, process, program)
    row["dropped"] = dropped() - before
    check(process, PAGE)
    yield row


def dropped() -> int:
    """Handshakes that the kernel dropped because an accept queue was full. Each is repeated after a
    second (RFC 6298 section 2.1), when ab has its replies from others. So ab counts none of these
    connections, and the others waited behind fewer."""
    return counters()["ListenDrops"]


def _ab(stand: FieldStand, process: Running, program: Path) -> Row:
    at_once = stand.plan.options.connections
    requests = round(EACH * at_once)
    with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
        found = ab.run(
            program,
            f"http://{process.address}{PAGE.target}",
            requests=requests,
            concurrency=at_once,
            keep_alive=False,
            before=stand.place(process).argv(),
            # -r: a connection that breaks counts as failed, and does not end the run.
            more=("-r", "-t", str(LONGEST), "-g", file.name),
        )
        times = {float(percent): ms for percent, ms in found.percentiles.items()}
        # In whole milliseconds, unlike those around it.
        times[FINE] = min(max(_fine(Path(file.name)), times[99]), times[100])
    # A rejection is of another length than the first reply, so ab counts it twice.
    failed = max(found.failed, found.non_2xx) + found.write_errors
    return {
        "requests": requests,
        "failed": failed + requests - found.complete,
        "requests_per_second": found.requests_per_second,
        "latency_ms": {name: times[percent] for name, percent in PERCENTS.items()},
    }


def _fine(file: Path) -> float:
    """One more percentile, from the milliseconds of each request (-g)."""
    with file.open(newline="") as rows:
        times = sorted(float(row["ttime"]) for row in csv.DictReader(rows, delimiter="\t"))
    return times[ceil(FINE / 100 * len(times)) - 1]


BEYOND = 64

CORES = (
    "One CPU with one thread, then two with two. The speed-up is that of the throughput of `/work` with 200,000 "
    "iterations; with two CPUs the generator goes first on whichever it needs. The CPU per request is that of "
    "`/hello`: with two CPUs the generator shares both, for all alike. By the universal scalability law (Gunther, "
    f"2007) the speed-up on {BEYOND} CPUs lies between the two columns: all that was lost is coherence, or all is "
    "contention. One ratio cannot tell which, and nothing beyond two CPUs was measured."
)

CONNECTIONS = (
    "One thread on one CPU, `/hello`, closed loop on so many connections. With one connection a server sleeps after "
    "each request; with more it finds several whenever it looks. Memory is what its processes hold with all "
    "connections open, above what they held with none. A 503 of a server that sheds load is not a right reply."
)


@dataclass(frozen=True)
class Law:
    """The universal scalability law: throughput of n CPUs in that of one
    (Gunther, *Guerrilla Capacity Planning*, 2007)."""

    contention: float
    """Share of the work that one CPU at a time can do (Amdahl's): costs n."""
    coherence: float = 0.0
    """Share that each pair of CPUs spends on agreeing: costs n²."""

    def speed_up(self, cpus: float) -> float:
        """Throughput of so many CPUs in that of one."""
        waits = self.contention * (cpus - 1) + self.coherence * cpus * (cpus - 1)
        return cpus / (1 + waits)


def between(two_cpus: float) -> tuple[Law, Law]:
    """The laws that agree with a speed-up on two CPUs and lie farthest apart beyond."""
    lost = max(0.0, 2 / two_cpus - 1)
    return Law(lost), Law(0.0, lost / 2)


def cores(page: Page, record: Record, part: str) -> None:
    """The part `cores`."""

    def cost(name: str, cpus: str) -> list[float]:
        return record.values("cpu_us", server=name, part=part, cpus=cpus, of="hello")

    def speed_up(name: str) -> list[float]:
        both = {"server": name, "part": part, "of": "work"}
        return record.ratios("requests_per_second", {"cpus": "2"}, {"cpus": "1"}, **both)

    def beyond(name: str, end: int) -> str:
        return (
            f"{between(median(found))[end].speed_up(BEYOND):.1f}"
            if (found := speed_up(name))
            else "–"
        )

    names = [name for name in record.labels("server", part=part) if speed_up(name)]
    page.table(
        "",
        names,
        ("speed-up on 2 CPUs", lambda name: cell(speed_up(name), 2)),
        (f"on {BEYOND}, at least", lambda name: beyond(name, 1)),
        ("at most", lambda name: beyond(name, 0)),
        ("CPU per request on 1, µs", lambda name: cell(cost(name, "1"), 2)),
        ("on 2, µs", lambda name: cell(cost(name, "2"), 2)),
    )


def connections(page: Page, record: Record, part: str) -> None:
    """The part `connections`."""
    counts = record.labels("of", part=part)

    def values(figure: str, name: str, count: str) -> list[float]:
        return record.values(figure, server=name, part=part, of=count)

    def each(name: str) -> str:
        """Of the most connections that it carried."""
        found = [(int(count), values("memory_kib", name, count)) for count in counts]
        most, memory = max(((at, found) for at, found in found if found), default=(0, []))
        return middle([kib / most for kib in memory], 2)

    names = record.labels("server", part=part)
    columns = [
        (f"{int(count):,}", lambda name, count=count: middle(values("cpu_us", name, count), 2))
        for count in counts
    ]
    page.table("CPU per request, µs", names, *columns, ("KiB for each", each))
    failed = {name: sum(record.values("wrong", server=name, part=part)) for name in names}
    page.points(
        f"{name}: {count:,.0f} requests without a right reply."
        for name, count in failed.items()
        if count
    )
    series = [
        Series(name, [(int(count), values("cpu_us", name, count)) for count in counts])
        for name in names
    ]
    if series:
        panel = Panel(series, x="connections", y="µs", kind="lines", log="x")
        page.plot(Plot("CPU time of a request by connections", [panel], "connections"))
