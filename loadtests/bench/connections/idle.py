"""Idle connections: memory per connection compared with nginx, and growing numbers during live
requests.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadtests.bench.connections.base import ConnectionsBed, Part
from loadtests.bench.connections.clients import Holders, Live, holders, live, quantiles
from loadtests.bench.connections.servers import PARKED, WAKES, Fleet, Nginx, fleet, replica
from loadtests.bench.cpu import Watch
from loadtests.bench.experiment.page import Figure
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.servers import Startable
from loadtests.bench.networks import kernel_kib, most_connections

COUNT = 10_000

SETTLE = 3.5
"""Seconds to wait, which is longer than corelane-server's allocator keeps free memory."""

PARK_AFTER = "1s"
"""Shorter than the default, to shorten the run. This does not change parked connections."""

BODY = 64
"""Bytes of the body that moves a connection to hyper. The handler of /hello drops it unread, like
many handlers.
"""

LASTING = ("--timeouts.idle", "1h", "--timeouts.connection-age", "off", "--drain.settle", "0s")

LATENCIES = (Figure("p50, ms", "p50"), Figure("p99, ms", "p99"), Figure("longest, ms", "max", 1))


@dataclass(frozen=True)
class Arm:
    parks: bool = False
    nginx: bool = False
    tls: bool = False
    hyper: bool = False
    """Whether each GET has a body, so that hyper serves the connection and does not park it."""

    def server(self, bed: ConnectionsBed, room: int) -> Startable:
        pem = bed.pem if self.tls else None
        if self.nginx:
            return Nginx(room + 100, pem)
        park_after = PARK_AFTER if self.parks else "off"
        return replica(*LASTING, "--park-after", park_after, room=room + 100, pem=pem)


ARMS = {
    "parked": Arm(parks=True),
    "not parked": Arm(),
    "on hyper": Arm(hyper=True),
    "nginx": Arm(nginx=True),
    "parked + TLS": Arm(parks=True, tls=True),
    "not parked + TLS": Arm(tls=True),
    "nginx + TLS": Arm(nginx=True, tls=True),
}


class Memory(Part):
    """Every arm holds the same number of connections, each after one request."""

    scenario = "idle"
    name = "memory"
    title = "Memory of an idle connection"
    arms = tuple(ARMS)
    rounds = 0.4
    tools = ("nginx", "openssl")
    tables = (
        (
            Figure("KiB each", "kib"),
            Figure("× nginx", "kib", over={"line": "nginx"}),
            Figure("× nginx + TLS", "kib", over={"line": "nginx + TLS"}),
            Figure("when just opened, KiB each", "opened_kib"),
            Figure("server before the first, MiB", "before_kib", 1, 1 / 1024),
            Figure("server with all, MiB", "resident_kib", 1, 1 / 1024),
            Figure("kernel, both ends, KiB each", "kernel_kib", 1),
            Figure("all open after, s", "open_s", 1),
        ),
    )

    def measure(self, bed: ConnectionsBed, arms: Sequence[str], number: int) -> Iterator[Row]:
        for name in arms:
            yield {"arm": name, **_sample(bed, ARMS[name])}


def _sample(bed: ConnectionsBed, arm: Arm) -> Row:
    connections = bed.count(COUNT)
    options: dict[str, object] = {"body": BODY} if arm.hyper else {}
    options |= {"certificate": bed.pem[0]} if arm.tls else {}
    parked = connections if arm.parks else 0
    with (
        fleet([arm.server(bed, connections)], bed.programs, [bed.cpus[0]]) as serving,
        holders(bed.programs.generator, serving.to, bed.clients, **options) as held,
    ):
        watch = Watch(serving.cpu_seconds)
        held.fill(1)
        serving.rest(min(parked, 1))
        before, kernel = serving.resident_kib()["server"], sum(kernel_kib().values())
        stage = held.fill(connections - 1)
        opened = serving.resident_kib()["server"]
        serving.rest(parked)
        # Servers return memory to the system within this time, or never.
        time.sleep(SETTLE)
        resident, after = serving.resident_kib()["server"], sum(kernel_kib().values())
        found = {
            "parked": serving.total(PARKED) if arm.parks else 0,
            "wrong": connections - held.look()["open"],
            **watch.seen(stage.cpu_seconds),
        }
    count = connections - 1
    return {
        "requests": connections,
        "before_kib": before,
        "resident_kib": resident,
        "opened_kib": (opened - before) / count,
        "kib": (resident - before) / count,
        "kernel_kib": (after - kernel) / count,
        "open_s": stage.seconds,
        **found,
    }


COUNTS = (0, 40_000, 100_000)
RATE = 1_000.0
SECONDS = 4.0
QUIET = 2.0
WAKING = 5_000.0

LIVE = 4


class Climb(Part):
    scenario = "idle"
    name = "climb"
    title = "Up to 100,000 idle connections"
    arms = ("parked", "not parked")
    rounds = 0.6
    tools = ("openssl",)
    tables = (
        (
            Figure("servers, MiB", "resident_kib", 0, 1 / 1024),
            Figure("KiB each", "kib"),
            Figure("parked", "parked", 0),
            *LATENCIES,
            Figure("CPU per live request, µs", "cpu_us", 1),
            Figure("CPU of the wait alone, % of a core", "quiet_cores", 2, 100),
            Figure("kernel, KiB each", "kernel_kib", 1),
            Figure("opened, /s", "opened_per_second", 0),
        ),
        (
            Figure("woken", "wakes", 0),
            Figure("asked", "requests", 0),
            Figure("wrong", "wrong", 0),
            Figure("CPU each, µs", "cpu_us", 1),
            *LATENCIES,
            Figure("live p99, ms", "live_p99"),
        ),
        (
            Figure("after SIGTERM, s", "drain_s"),
            Figure("connections", "requests", 0),
            Figure("stayed open, or no exit", "wrong", 0),
        ),
    )

    def measure(self, bed: ConnectionsBed, arms: Sequence[str], number: int) -> Iterator[Row]:
        for arm in arms:
            yield from ({"arm": arm, **row} for row in _climb(bed, arm))


def _climb(bed: ConnectionsBed, name: str) -> Iterator[Row]:
    arm, top, cpus = ARMS[name], bed.count(COUNTS[-1]), bed.cpus
    count = -(-top // (most_connections() - LIVE))
    servers = [arm.server(bed, -(-top // count) + LIVE) for _ in range(count)]
    program = bed.programs.generator
    with (
        fleet(servers, bed.programs, [cpus[0]]) as serving,
        holders(program, serving.to, bed.clients, count) as held,
        live(program, serving.to, cpus[1], RATE, LIVE) as requests,
    ):
        requests.measure(bed.plan.seconds(1.0))
        so_far, before = 0, (serving.resident_kib()["server"], sum(kernel_kib().values()))
        for usual in COUNTS:
            connections = bed.count(usual, least=0)
            more = held.fill(connections - so_far) if connections > so_far else None
            so_far = connections
            serving.rest(connections if arm.parks else 0)
            yield {
                "line": f"{name}: {connections:,}",
                "opened_per_second": (more.count / more.seconds) if more else None,
                **_level(bed, serving, held, requests, connections, before),
                "parked": serving.total(PARKED) if arm.parks else 0,
            }
        for line, beside in (("asked once", None), ("with live requests", requests)):
            yield {"line": f"{name}: {line}", **_wake(serving, held, beside, arm.parks)}
        connections = held.look()["open"]
        drain = serving.drain()
        yield {
            "line": f"{name}: drain",
            "requests": connections,
            "drain_s": drain["seconds"],
            "wrong": drain["failed"] + _left(held),
        }


def _level(
    bed: ConnectionsBed,
    serving: Fleet,
    held: Holders,
    requests: Live,
    connections: int,
    before: tuple[int, float],
) -> Row:
    time.sleep(SETTLE)
    watch = Watch(serving.cpu_seconds)
    time.sleep(bed.plan.seconds(QUIET))
    quiet = watch.seen()
    watch = Watch(serving.cpu_seconds)
    found = requests.measure(bed.plan.seconds(SECONDS))
    seen = watch.seen(found["generator_cpu_seconds"])
    lost = connections - held.look()["open"] if connections else 0
    resident, kernel = serving.resident_kib()["server"], sum(kernel_kib().values())
    each = {"kib": resident - before[0], "kernel_kib": kernel - before[1]}
    return {
        **found,
        **seen,
        "wrong": found["wrong"] + lost,
        "cpu_us": seen["cpu_seconds"] / max(1, found["requests"]) * 1e6,
        "quiet_cores": quiet["cpu_seconds"] / quiet["wall"],
        "resident_kib": resident,
        **({name: kib / connections for name, kib in each.items()} if connections else {}),
    }


def _wake(serving: Fleet, held: Holders, beside: Live | None, parks: bool) -> Row:
    connections = held.look()["open"]
    seconds = connections / WAKING
    wakes, watch = serving.total(WAKES), Watch(serving.cpu_seconds)
    if beside:
        beside.begin(seconds)
    stage = held.ask(seconds)
    other = beside.result() if beside else {"requests": 0, "wrong": 0}
    serving.rest(connections if parks else 0)
    used = watch.seen()["cpu_seconds"]
    times = stage.times("answered_ms", "due_ms")
    requests = stage.count + other["requests"]
    return {
        "requests": requests,
        "wrong": stage.count - len(times) + other["wrong"],
        "faults": stage.faults,
        "wakes": serving.total(WAKES) - wakes,
        "cpu_us": used / max(1, requests) * 1e6,
        "live_p99": other.get("p99"),
        **quantiles(times),
    }


def _left(held: Holders) -> int:
    """Connections with a close still in transit to the client."""
    deadline = time.monotonic() + 5.0
    while (left := held.look()["open"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
