"""How cost grows with cores and connections: tables, and what two cores say of more."""

from dataclasses import dataclass
from statistics import median

from loadtests.bench.experiment.page import Page, cell, middle
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record

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
