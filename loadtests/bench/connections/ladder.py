"""S3's ladder: held idle and slow connections, and 20,000 requests of 4 KiB at once; also through
the gateway.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import product
from typing import ClassVar

from loadtests.bench import networks
from loadtests.bench.connections.base import ConnectionsBed, Part
from loadtests.bench.connections.clients import Holders, Stage, holders, live, quantiles
from loadtests.bench.connections.servers import Fleet, Floor, configuration, fleet, replica
from loadtests.bench.cpu import Watch
from loadtests.bench.experiment.generator import Place
from loadtests.bench.experiment.page import Figure
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.servers import STATIC
from loadtests.bench.networks import Kernel

REPLICAS = 2

GATEWAY_VALUES = {
    # The chart requires less than half of the configured descriptors.
    "listener": {"connections": 30_000, "backlog": networks.BACKLOG},
    # Enough memory to avoid overload protection, which would affect the measurement.
    "memory": "2Gi",
    "upstream": {
        # Low limits, because waiting for an open connection costs less than opening another.
        "limits": {
            "connections": 256,
            "connectionsPerReplica": 128,
            "pending": 20_000,
            "requests": 20_000,
        },
        # One event-loop iteration serves thousands of clients before it processes the answer to its
        # own SYN. With the default of 2 s, it may reject the requests that wait for the connection.
        "connectTimeout": "10s",
    },
}
"""Gateway values for this many connections; all others are the chart's defaults."""

PAGE, LARGE = "4k.txt", "large.bin"
LARGE_BYTES = 4 << 20


class Ladder(Part):
    """Clients connect directly to replicas, or to gateways in front of two replicas."""

    scenario = "ladder"
    tools = ("helm", "supervisord", "envoy")
    values: ClassVar = GATEWAY_VALUES

    def prepare(self, bed: ConnectionsBed) -> None:
        self._configuration = configuration(bed.programs.tools, REPLICAS, self.values)
        self._root = bed.folder / "static"
        if not self._root.exists():
            self._root.mkdir()
            (self._root / PAGE).write_bytes((STATIC / PAGE).read_bytes())
            (self._root / LARGE).write_bytes(bytes(LARGE_BYTES))

    def serving(
        self, bed: ConnectionsBed, cpus: list[int], connections: int, *flags: str, gateway: bool
    ) -> AbstractContextManager[Fleet]:
        """Starts processes for this many connections, none of which holds more connections than it
        may."""
        most = networks.most_connections()
        processes = max(REPLICAS, -(-connections // most))
        flags = ("--static.root", str(self._root), *flags)
        count = REPLICAS if gateway else processes
        servers = [replica(*flags, pin="off", room=most) for _ in range(count)]
        config = self._configuration if gateway else None
        return fleet(servers, bed.programs, cpus, gateway=config, gateways=processes)

    def page_of(self, name: str) -> dict[str, object]:
        return {"page": f"/static/{name}", "file": self._root / name}


RATE = 1_000.0
LIVE = 32
SECONDS = 2.0
OPENED_PER_SECOND = 5_000.0

HEADER_SECONDS = 10.0
"""Maximum seconds for a complete header, at the server and the gateway (timeouts.header)."""

HELD = {
    f"{path} {count} {title}": (path == "gateway", count, manner)
    for (count, title, manner), path in product(
        (
            (1_000, "idle", "idle"),
            (10_000, "idle", "idle"),
            (40_000, "idle", "idle"),
            (1_000, "slow headers", "slow-head"),
            (1_000, "slow readers", "slow-read"),
        ),
        ("direct", "gateway"),
    )
}


class Held(Ladder):
    """Measures live requests without held connections, and then with them."""

    name = "held"
    title = "Idle and slow connections during live requests"
    arms = tuple(HELD)
    # Each slow reader occupies a connection to a replica, so the chart's limit determines their
    # number.
    values: ClassVar = {**GATEWAY_VALUES, "upstream": {"connectTimeout": "10s"}}
    rounds = 0.4
    tables = (
        (
            Figure("all open after, s", "open_s"),
            Figure("connect p99, ms", "connect_ms.p99"),
            Figure("open during live requests", "open", 0),
            Figure("open at the end", "left", 0),
            Figure("refused with 408", "refusals.408", 0),
            Figure("lasted p50, s", "lasted_s.p50", 1),
            Figure("longest, s", "lasted_s.max", 1),
        ),
        (
            Figure("server, KiB each", "kib.server", 1),
            Figure("gateway, KiB", "kib.gateway", 1),
            Figure("kernel, KiB", "kib.kernel", 1),
            Figure("live p50 alone, ms", "alone.p50"),
            Figure("with them", "beside.p50"),
            Figure("p99 alone, ms", "alone.p99"),
            Figure("with them", "beside.p99"),
            Figure("p99 ×", "p99_ratio"),
            Figure("live requests that failed", "beside.wrong", 0),
        ),
    )

    def measure(self, bed: ConnectionsBed, arms: Sequence[str], number: int) -> Iterator[Row]:
        for arm in arms:
            yield {"arm": arm, **self._row(bed, *HELD[arm])}

    def _row(self, bed: ConnectionsBed, gateway: bool, usual: int, manner: str) -> Row:
        connections, cpu = bed.count(usual), bed.cpus[1]
        program, idle = bed.programs.generator, manner == "idle"
        processes = -(-connections // networks.most_connections())
        options = {**self.page_of(PAGE if idle else LARGE), "manner": manner}
        seconds = bed.plan.seconds(SECONDS)
        with (
            self.serving(bed, [bed.cpus[0]], connections, gateway=gateway) as serving,
            live(program, serving.to, cpu, RATE, LIVE) as requests,
        ):
            requests.measure(seconds / 4)
            alone, before = requests.measure(seconds), _memory(serving)
            with holders(program, serving.to, bed.clients, processes, **options) as held:
                begun = connections / OPENED_PER_SECOND
                stage = held.open(connections, seconds=begun, ask=idle)
                # Memory returns to the system within this time, or never.
                time.sleep(0.3)
                grown = {name: kib - before[name] for name, kib in _memory(serving).items()}
                watch = Watch(serving.cpu_seconds)
                beside = requests.measure(seconds)
                seen = watch.seen(beside["generator_cpu_seconds"])
                meanwhile = held.look()
                left = _refused(held) if manner == "slow-head" else meanwhile
        lost = connections - stage.failed - left["open"] if idle else 0
        return {
            "requests": connections + alone["requests"] + beside["requests"],
            # The server may reject the slow clients.
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


def _memory(serving: Fleet) -> dict[str, float]:
    return {**serving.resident_kib(), "kernel": sum(networks.kernel_kib().values())}


def _refused(held: Holders) -> dict:
    """Waits until no connection remains, or until the header timeout has certainly passed."""
    deadline = time.monotonic() + 1.5 * HEADER_SECONDS
    while (found := held.look())["open"] > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


REQUESTS = 20_000
FIRST = 50
"""Connections that first send an unmeasured request, because a new server reads the file and starts
threads.
"""

PROCESSES = 2
"""Generator processes: one per CPU, and each within its limit on descriptors."""

MOMENT, OPEN = "at the same time", "at the same time on open connections"
PATTERNS: dict[str, dict[str, float]] = {
    MOMENT: {},
    "as fast as they can": {"burst": 64},
    **{f"within {window:g} s": {"seconds": window} for window in (0.5, 1.0, 2.0)},
}
"""Patterns: either all connections start before the first response is read, or responses are read
in between, or requests are spread out.
"""

FROM_DISK = ("--static.cache", "0", "--limits.blocking-queue", str(REQUESTS))
"""Every request opens and reads the file, and any number of them may wait for it."""

FLOOR, MEMORY, DISK, GATEWAY = "floor", "server", "server from disk", "gateway at once"


class AtOnce(Ladder):
    name = "at-once"
    title = "20,000 requests at once"
    arms = (FLOOR, MEMORY, DISK, GATEWAY)
    rounds = 0.6
    tools = (*Ladder.tools, "floor")
    tables = (
        (
            Figure("failed", "wrong", 0),
            *(Figure(f"{key}, ms", f"answer_ms.{key}", 0) for key in ("p50", "p99", "max")),
            *(Figure(f"{key} since due, ms", f"since_due_ms.{key}", 0) for key in ("p50", "max")),
            Figure("connect p99, ms", "connect_ms.p99", 0),
            Figure("most at once", "most_at_once", 0),
            Figure("all answered after, s", "seconds"),
        ),
        (
            Figure("SYNs sent again", "kernel.TCPSynRetrans", 0),
            Figure("segments sent again", "kernel.RetransSegs", 0),
            Figure("accept queue full", "kernel.ListenOverflows", 0),
            Figure("packets dropped", "kernel.dropped_packets", 0),
            Figure("CPU of the generator, s", "generator_cpu_seconds"),
            Figure("CPU of servers and gateways, s", "cpu_seconds"),
        ),
    )

    def measure(self, bed: ConnectionsBed, arms: Sequence[str], number: int) -> Iterator[Row]:
        for arm in arms:
            with self._target(bed, arm) as serving:
                with self._clients(bed, serving) as held:
                    held.open(FIRST)
                networks.settle()
                for name, pace in PATTERNS.items():
                    with self._clients(bed, serving) as held:
                        count = bed.count(REQUESTS)
                        row = _together(serving, lambda: held.open(count, **pace))  # noqa: B023
                        yield {"arm": arm, "line": f"{arm}: {name}", **row}
                        if name == MOMENT:
                            row = _together(serving, held.ask)
                            yield {"arm": arm, "line": f"{arm}: {OPEN}", **row}
                    networks.settle()

    def _target(self, bed: ConnectionsBed, arm: str) -> AbstractContextManager[Fleet]:
        cpus = list(bed.cpus)
        if arm == FLOOR:
            return fleet([Floor() for _ in range(REPLICAS)], bed.programs, cpus)
        flags = FROM_DISK if arm == DISK else ()
        return self.serving(bed, cpus, bed.count(REQUESTS), *flags, gateway=arm == GATEWAY)

    def _clients(self, bed: ConnectionsBed, serving: Fleet) -> AbstractContextManager[Holders]:
        program, place = bed.programs.generator, Place(list(bed.cpus))
        return holders(program, serving.to, place, PROCESSES, **self.page_of(PAGE))


def _together(serving: Fleet, begin: Callable[[], Stage]) -> Row:
    """Combined figures for all connections, the kernel's counters, and the CPU time."""
    kernel, watch = Kernel(), Watch(serving.cpu_seconds)
    stage = begin()
    return {
        **watch.seen(stage.cpu_seconds),
        "kernel": kernel.counted(),
        "requests": stage.count,
        "wrong": stage.failed,
        "faults": stage.faults,
        "most_at_once": stage.most_at_once,
        "seconds": stage.last("answered_ms"),
        "answer_ms": quantiles(stage.times("answered_ms")),
        "since_due_ms": quantiles(stage.times("answered_ms", "due_ms")),
        "connect_ms": quantiles(stage.times("connected_ms")) if stage.last("connected_ms") else {},
        "generator_cpu_seconds": stage.cpu_seconds,
    }
