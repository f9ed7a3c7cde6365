"""S3's ladder: idle and slow connections that are held, and 20,000 requests of 4 KiB at once; with the gateway too."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from loadtests.bench import networks
from loadtests.bench.connections.clients import Holders, holders, live, quantiles
from loadtests.bench.connections.part import ConnectionsStand, Part, Rows
from loadtests.bench.connections.servers import (
    STATIC,
    Fleet,
    Floor,
    Replica,
    configuration,
    fleet,
)
from loadtests.bench.cpu import Watch
from loadtests.bench.experiment.generator import Place
from loadtests.bench.experiment.page import Page, cell
from loadtests.bench.experiment.plan import Row
from loadtests.bench.networks import counters, dropped_packets

REPLICAS = 2
"""At least; and as many behind the gateways, however many there are."""

GATEWAY_VALUES = {
    # As the chart requires, less than half of the configured descriptors.
    "listener": {"connections": 30_000, "backlog": networks.BACKLOG},
    # Large, because its overload protection would affect the measurement.
    "memory": "2Gi",
    "upstream": {
        # Few: a request then waits for an open one, which costs less than another connection.
        "limits": {
            "connections": 256,
            "connectionsPerReplica": 128,
            "pending": 20_000,
            "requests": 20_000,
        },
        # One turn of its loop serves thousands of clients before it processes the answer to its own
        # SYN. With the default of 2 s it may reject the requests that wait for it.
        "connectTimeout": "10s",
    },
}
"""What a gateway of so many connections is given; all else is the chart's default."""

TOOLS = ("helm", "supervisord", "envoy")


class Stack(Part):
    """Replicas directly, or gateways before two of them."""

    scenario = "ladder"

    values: ClassVar = GATEWAY_VALUES

    def prepare(self, stand: ConnectionsStand) -> None:
        self._configuration = configuration(stand.programs.tools, REPLICAS, self.values)
        self._root = stand.folder / "static"
        if not self._root.exists():
            self._root.mkdir()
            (self._root / PAGE).write_bytes((STATIC / PAGE).read_bytes())
            (self._root / LARGE).write_bytes(bytes(LARGE_BYTES))

    def serving(
        self,
        stand: ConnectionsStand,
        cpus: list[int],
        connections: int,
        *flags: str,
        gateway: bool = False,
    ) -> AbstractContextManager[Fleet]:
        """For so many connections, none of whose processes has more than it may."""
        most = networks.most_connections()
        processes = max(REPLICAS, -(-connections // most))
        flags = ("--static.root", str(self._root), *flags)
        servers = [
            Replica(f"server-{index}", flags, pin=False, room=most)
            for index in range(REPLICAS if gateway else processes)
        ]
        text = self._configuration if gateway else ""
        return fleet(servers, stand.programs, cpus, gateway=text, gateways=processes)

    def page_of(self, name: str) -> dict[str, object]:
        """The request of clients."""
        return {"page": f"/static/{name}", "file": self._root / name}


PAGE, LARGE = "4k.txt", "large.bin"
LARGE_BYTES = 4 << 20
"""A reply that no socket's buffers take as a whole."""

PATHS = ("direct", "gateway")
RATE = 1_000.0
LIVE = 32
SECONDS = 2.0
OPENED_PER_SECOND = 5_000.0

HEADER_SECONDS = 10.0
"""Time for a whole header, of the server as of the gateway (timeouts.header)."""


@dataclass(frozen=True)
class Crowd:
    """Connections that are held, directly or through gateways."""

    gateway: bool
    connections: int
    manner: str = "idle"


HELD = {
    f"{path} {label}": Crowd(path == "gateway", connections, manner)
    for (label, connections, manner), path in product(
        (
            ("1000 idle", 1_000, "idle"),
            ("10000 idle", 10_000, "idle"),
            ("40000 idle", 40_000, "idle"),
            ("1000 slow headers", 1_000, "slow-head"),
            ("1000 slow readers", 1_000, "slow-read"),
        ),
        PATHS,
    )
}


class Held(Stack):
    """Live requests without held connections, and then with them."""

    name = "held"
    title = "Idle and slow connections during live requests"
    arms = tuple(HELD)
    # Each slow reader holds a connection to a replica, so their number is that of the chart.
    values: ClassVar = {**GATEWAY_VALUES, "upstream": {"connectTimeout": "10s"}}
    rounds = 0.4
    tools = TOOLS
    method = (
        f"An idle connection sends one request and is then silent; {OPENED_PER_SECOND:,.0f} are opened per second. A slow header "
        "grows by one byte per second and never ends; server and gateway allow 10 s for a whole one. A slow reader has the "
        f"smallest receive buffer, requests 4 MiB and reads 512 bytes per second. {RATE:,.0f} live requests of `/hello` are "
        f"sent per second, open loop, on separate connections, for {SECONDS:g} s before the others are opened and for "
        f"{SECONDS:g} s with them."
    )

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        for arm in arms:
            yield {"arm": arm, **self._row(stand, HELD[arm])}

    def _row(self, stand: ConnectionsStand, crowd: Crowd) -> Row:
        connections, cpu = stand.count(crowd.connections), stand.cpus[1]
        program, idle = stand.programs.generator, crowd.manner == "idle"
        processes = -(-connections // networks.most_connections())
        options = {**self.page_of(PAGE if idle else LARGE), "manner": crowd.manner}
        seconds = stand.plan.seconds(SECONDS)
        with (
            self.serving(stand, [stand.cpus[0]], connections, gateway=crowd.gateway) as serving,
            live(program, serving.to, cpu, RATE, LIVE) as requests,
        ):
            requests.measure(seconds / 4)
            alone, before = requests.measure(seconds), _memory(serving)
            with holders(program, serving.to, stand.clients, processes, **options) as held:
                begun = connections / OPENED_PER_SECOND
                stage = held.open(connections, seconds=begun, ask=idle)
                # What is given back at all is given back within this time.
                time.sleep(0.3)
                grown = {name: kib - before[name] for name, kib in _memory(serving).items()}
                watch = Watch(serving.cpu_seconds)
                beside = requests.measure(seconds)
                seen = watch.seen(beside["generator_cpu_seconds"])
                meanwhile = held.look()
                left = _refused(held) if crowd.manner == "slow-head" else meanwhile
        lost = connections - stage.failed - left["open"] if idle else 0
        return {
            "requests": connections + alone["requests"] + beside["requests"],
            # Slow clients themselves may be refused.
            "wrong": stage.failed + lost + alone["wrong"] + beside["wrong"],
            "open_s": stage.last("connected_ms"),
            "connect_ms": quantiles(stage.times("connected_ms")),
            "kib": {name: kib / connections for name, kib in grown.items()},
            "open": meanwhile["open"],
            "left": left["open"],
            "refusals": left["refusals"],
            "lasted_s": quantiles(left["lasted_s"]),
            "alone": alone,
            "beside": beside,
            "p99_ratio": beside.get("p99", 0.0) / alone["p99"],
            **seen,
        }

    def brief(self, row: Row) -> str:
        return f"open after {row['open_s']:.2f} s, p99 {row['p99_ratio']:.2f} times that alone, {row['wrong']} wrong"

    def reading(self, rows: Rows) -> Iterator[str]:
        for line in rows.lines():
            yield (
                f"{line.capitalize()} connections: all open after {cell(rows.values(line, 'open_s'), 2)} s; the p99 of live "
                f"requests is {cell(rows.values(line, 'p99_ratio'), 2)} times that without them."
            )

    def report(self, page: Page, rows: Rows) -> None:
        opened = (
            *(("all open after, s", "open_s", 2), ("connect p99, ms", "connect_ms.p99", 2)),
            *(("open during live requests", "open", 0), ("open at the end", "left", 0)),
            *(("refused with 408", "refusals.408", 0), ("lasted p50, s", "lasted_s.p50", 1)),
            ("longest, s", "lasted_s.max", 1),
        )
        rows.table(page, opened)
        beside = (
            *(("server, KiB each", "kib.server", 1), ("gateway, KiB", "kib.gateway", 1)),
            *(("kernel's objects, KiB", "kib.slab", 1), ("its buffers, KiB", "kib.buffers", 1)),
            *(("p50 alone, ms", "alone.p50", 2), ("with them", "beside.p50", 2)),
            *(("p99 alone, ms", "alone.p99", 2), ("with them", "beside.p99", 2)),
            *(("p99 ×", "p99_ratio", 2), ("live requests that failed", "beside.wrong", 0)),
        )
        page.text("Memory of each connection, and live requests with all of them open:")
        rows.table(page, beside)


def _memory(serving: Fleet) -> dict[str, float]:
    return {**serving.resident_kib(), **networks.kernel_kib()}


def _refused(held: Holders) -> dict:
    """Waits until none is left, or for longer than a header may take."""
    deadline = time.monotonic() + 1.5 * HEADER_SECONDS
    while (found := held.look())["open"] > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


REQUESTS = 20_000
FIRST = 50
"""Connections that ask first, unmeasured: who has never been asked reads the file and starts threads."""

PROCESSES = 2
"""Of the generator: one for each CPU, and none needs more descriptors than it may have."""

MOMENT, OPEN = "at the same time", "at the same time on open connections"
PATTERNS: dict[str, dict[str, float]] = {
    MOMENT: {},
    "as fast as they can": {"burst": 64},
    **{f"within {window:g} s": {"seconds": window} for window in (0.5, 1.0, 2.0)},
}
"""All begin before the first reply is read; or replies are read in between; or they are spread."""

FROM_DISK = ("--static.cache", "0", "--limits.blocking-queue", str(REQUESTS))
"""Every request opens the file and reads it, and as many may wait for that as come."""

PUBLISHED_P50, PUBLISHED_MAX = 30.0, 300.0
PUBLISHED = "30 ms in the median and none over 300 ms (Pauley, A High Concurrency HTTP Server Architecture, 2019)"
FLOOR, MEMORY, DISK, GATEWAY = "floor", "server", "server from disk", "gateway at once"


class AtOnce(Stack):
    """Every pattern with each target; all share the CPUs."""

    name = "at-once"
    title = "20,000 requests at once"
    arms = (FLOOR, MEMORY, DISK, GATEWAY)
    rounds = 0.6
    tools = (*TOOLS, "floor")
    method = (
        f"A file of 4 KiB. Published for 20,000 simultaneous requests: {PUBLISHED}. A time is from the request's first SYN to the "
        "last byte of the reply, or from the request itself if connections are already open. “Since due” counts from when the "
        "request should have started, and includes the generator's own work. Generator, servers and gateways share both "
        "CPUs. The floor is one epoll loop that sends the file from an array: the cost of kernel and generator alone."
    )

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        for arm in arms:
            with self._target(stand, arm) as serving:
                with self._clients(stand, serving) as held:
                    held.open(FIRST)
                networks.settle()
                for name, pace in PATTERNS.items():
                    for line, row in self._pattern(stand, serving, name, pace):
                        yield {"arm": arm, "line": f"{arm}: {line}", **row}
                    networks.settle()

    def _target(self, stand: ConnectionsStand, arm: str) -> AbstractContextManager[Fleet]:
        cpus = list(stand.cpus)
        if arm == FLOOR:
            return fleet(
                [Floor(f"floor-{index}") for index in range(REPLICAS)], stand.programs, cpus
            )
        flags, gateway = FROM_DISK if arm == DISK else (), arm == GATEWAY
        return self.serving(stand, cpus, stand.count(REQUESTS), *flags, gateway=gateway)

    def _clients(self, stand: ConnectionsStand, serving: Fleet) -> AbstractContextManager[Holders]:
        program, place = stand.programs.generator, Place(list(stand.cpus))
        return holders(program, serving.to, place, PROCESSES, **self.page_of(PAGE))

    def _pattern(
        self, stand: ConnectionsStand, serving: Fleet, name: str, pace: dict[str, float]
    ) -> Iterator[tuple[str, Row]]:
        with self._clients(stand, serving) as held:
            yield name, _stage(serving, lambda: held.open(stand.count(REQUESTS), **pace))
            if name == MOMENT:
                yield OPEN, _stage(serving, held.ask)

    def brief(self, row: Row) -> str:
        times = row["answer_ms"]
        return f"{row['line']}: p50 {times.get('p50', 0):.0f} ms, longest {times.get('max', 0):.0f} ms, {row['wrong']} failed"

    def reading(self, rows: Rows) -> Iterator[str]:
        for arm in self.arms:
            line = f"{arm}: {MOMENT}"
            if rows.values(line, "requests"):
                p50, longest = (
                    cell(rows.values(line, f"answer_ms.{name}"), 0) for name in ("p50", "max")
                )
                yield (
                    f"At once on new connections, {arm}: p50 {p50} ms, longest {longest} ms; {narrowest(rows, arm)}."
                )

    def report(self, page: Page, rows: Rows) -> None:
        columns = (
            *(
                ("failed", "wrong", 0),
                ("p50, ms", "answer_ms.p50", 0),
                ("p99, ms", "answer_ms.p99", 0),
            ),
            *(("longest, ms", "answer_ms.max", 0), ("p50 since due, ms", "since_due_ms.p50", 0)),
            *(("longest, ms", "since_due_ms.max", 0), ("connect p99, ms", "connect_ms.p99", 0)),
            *(("most at once", "most_at_once", 0), ("all answered after, s", "seconds", 2)),
        )
        rows.table(page, columns)
        kernel = (
            *(("SYNs sent again", "kernel.TCPSynRetrans", 0),),
            *(("segments sent again", "kernel.RetransSegs", 0),),
            *(("accept queue full", "kernel.ListenOverflows", 0),),
            *(("packets dropped", "kernel.dropped_packets", 0),),
            *(("CPU of the generator, s", "generator_cpu_seconds", 2),),
            ("CPU of servers and gateways, s", "cpu_seconds", 2),
        )
        page.text("What the kernel counted meanwhile:")
        rows.table(page, kernel)


def narrowest(rows: Rows, arm: str) -> str:
    """The narrowest window in which every round is within the published figures."""
    for name, pace in PATTERNS.items():
        line = f"{arm}: {name}"
        figures = ("answer_ms.p50", "answer_ms.max", "wrong")
        found = [rows.values(line, figure) for figure in figures]
        limits = (PUBLISHED_P50, PUBLISHED_MAX, 0)
        within = all(
            values and max(values) <= limit for values, limit in zip(found, limits, strict=True)
        )
        if within and "burst" not in pace:
            return f"the published figures are met in every round when they come {name}"
    return "the published figures are not met in every round, however they are spread here"


def _stage(serving: Fleet, begin) -> Row:
    """What connections do together, what the kernel counts, and the CPU time that is taken."""
    before, dropped, watch = counters(), dropped_packets(), Watch(serving.cpu_seconds)
    stage = begin()
    seen, after = watch.seen(stage.cpu_seconds), counters()
    answered = stage.times("answered_ms")
    return {
        "requests": stage.count,
        "wrong": stage.failed,
        "faults": stage.faults,
        "most_at_once": stage.most_at_once,
        "seconds": stage.last("answered_ms"),
        "answer_ms": quantiles(answered),
        "since_due_ms": quantiles(stage.times("answered_ms", "due_ms")),
        "connect_ms": quantiles(stage.times("connected_ms")) if stage.last("connected_ms") else {},
        "kernel": {name: after[name] - before[name] for name in after}
        | {"dropped_packets": dropped_packets() - dropped},
        "generator_cpu_seconds": stage.cpu_seconds,
        **seen,
    }
