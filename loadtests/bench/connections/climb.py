"""Idle connections: the memory of one compared with nginx, and a growing number during live requests."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from loadtests.bench.connections.clients import Holders, Live, holders, live, quantiles
from loadtests.bench.connections.part import ConnectionsStand, Part, Rows
from loadtests.bench.connections.servers import PARKED, WAKES, Fleet, Nginx, Replica, fleet
from loadtests.bench.cpu import Watch
from loadtests.bench.experiment.page import Page, cell
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.networks import kernel_kib, most_connections

COUNT = 10_000

SETTLE = 3.5
"""Seconds: longer than corelane-server's allocator keeps what is free."""

PARK_AFTER = "1s"
"""Sooner than by default, so that a run is short; what is parked is the same."""

BODY = 64
"""Bytes of the body that sends a connection to hyper. The handler of /hello drops it unread, as many do."""

TARGET_KIB = 1.0
"""Of resident memory for each parked connection over TCP."""

LASTING = ("--timeouts.idle", "1h", "--timeouts.connection-age", "off", "--drain.settle", "0s")
"""No connection may end by itself while it is measured."""


@dataclass(frozen=True)
class Arm:
    """A server, and how its connections come to wait."""

    parks: bool = False
    nginx: bool = False
    tls: bool = False
    hyper: bool = False
    """Each GET has a body, so hyper serves the connection, which is then not parked."""

    def server(self, stand: ConnectionsStand, room: int) -> Replica | Nginx:
        """It has room for so many, and some."""
        pem = stand.pem if self.tls else None
        if self.nginx:
            return Nginx("nginx", room + 100, pem)
        park_after = PARK_AFTER if self.parks else "off"
        flags = (*LASTING, "--park-after", park_after)
        return Replica("corelane-server", flags, room=room + 100, pem=pem)


ARMS = {
    "parked": Arm(parks=True),
    "not parked": Arm(),
    "on hyper": Arm(hyper=True),
    "nginx": Arm(nginx=True),
    "parked + TLS": Arm(parks=True, tls=True),
    "not parked + TLS": Arm(tls=True),
    "nginx + TLS": Arm(nginx=True, tls=True),
}
PEERS = {"parked": "nginx", "parked + TLS": "nginx + TLS"}


class Memory(Part):
    """Every arm holds as many connections, each after one request."""

    scenario = "idle"
    name = "memory"
    title = "Memory of an idle connection"
    arms = tuple(ARMS)
    rounds = 0.4
    tools = ("nginx", "openssl")
    method = (
        "Connections to one server with one thread, each with one request for `/hello`, then silence. What is counted "
        "is what the resident memory of all its processes grew by since the first connection was answered, some seconds "
        "after the last one was parked, or opened. `park_after` is 1 s here. A GET with a body moves its connection to "
        "hyper. nginx makes its table of connections at its start: see what each has before the first. It runs with one "
        "worker, buffers of TLS that are given back, no cache of sessions, and no end of keep-alive. TLS is 1.3 with "
        "ECDSA on P-256, each handshake a full one. The kernel's memory is what all slabs of the machine grew by, and the "
        "buffers of its sockets, of both ends: it is the same for every server."
    )

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        for name in arms:
            yield {"arm": name, **_sample(stand, ARMS[name])}

    def brief(self, row: Row) -> str:
        return f"{row['kib']:.2f} KiB for each of {row['requests']:,} connections"

    def reading(self, rows: Rows) -> Iterator[str]:
        if values := rows.values("parked", "kib"):
            met = "meets" if median(values) <= TARGET_KIB else "misses"
            yield (
                f"Parked: {cell(values, 2)} KiB of resident memory for each connection, "
                f"which {met} the target of at most {TARGET_KIB:g} KiB."
            )
        for line, peer in PEERS.items():
            if ratios := rows.ratios("kib", line, peer):
                yield f"Memory of a connection, {line}: {cell(ratios, 2)} times that of {peer}."

    def report(self, page: Page, rows: Rows) -> None:
        columns = (
            ("KiB each", "kib", 2),
            ("when just opened, KiB each", "opened_kib", 2),
            ("server before the first, MiB", "before_kib", 1, 1 / 1024),
            ("server with all, MiB", "resident_kib", 1, 1 / 1024),
            ("kernel, both ends, KiB each", "kernel_kib", 1),
            ("all open after, s", "open_s", 1),
        )
        rows.table(page, columns)


def _sample(stand: ConnectionsStand, arm: Arm) -> Row:
    connections = stand.count(COUNT)
    options: dict[str, object] = {"body": BODY} if arm.hyper else {}
    options |= {"certificate": stand.pem[0]} if arm.tls else {}
    server = arm.server(stand, connections)
    program, cpus = stand.programs.generator, [stand.cpus[0]]
    parked = connections if arm.parks else 0
    with (
        fleet([server], stand.programs, cpus) as serving,
        holders(program, serving.to, stand.clients, **options) as held,
    ):
        watch = Watch(serving.cpu_seconds)
        held.fill(1)
        serving.rest(min(parked, 1))
        before, kernel = serving.resident_kib()["server"], sum(kernel_kib().values())
        stage = held.fill(connections - 1)
        opened = serving.resident_kib()["server"]
        serving.rest(parked)
        # Memory that goes back to the system does so within this time, or not at all.
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


RUNGS = (0, 40_000, 100_000)
RATE = 1_000.0
SECONDS = 4.0
QUIET = 2.0
WAKING = 5_000.0
"""Connections woken per second at the top."""

LIVE = 4
"""Keep-alive connections of live requests to each replica."""


class Climb(Part):
    """Servers and clients of their own for each arm in each round."""

    scenario = "idle"
    name = "climb"
    title = "Up to 100,000 idle connections"
    arms = ("parked", "not parked")
    rounds = 0.6
    tools = ("openssl",)
    method = (
        f"Live requests arrive at {RATE:,.0f}/s, open loop, over separate connections. All replicas have one lane each and run "
        "from the first rung. Connections alternate between them, and a process opens one as soon as one of 64 has its "
        f"reply. At each rung all connections are first parked, if parking is on. Then there are {QUIET:g} s without "
        f"requests, which show the CPU of waiting alone, and {SECONDS:g} s of live requests. At the top every connection "
        f"sends one request, spread evenly at {WAKING:,.0f}/s, and is parked again, which its CPU includes. This is "
        "repeated during live requests, whose CPU is divided among both. A latency counts from when the request was due. "
        "Then SIGTERM, with all connections open."
    )

    def measure(self, stand: ConnectionsStand, arms: Sequence[str], number: int) -> Iterator[Row]:
        for arm in arms:
            for row in _climb(stand, arm):
                yield {"arm": arm, **row}

    def brief(self, row: Row) -> str:
        if "drain_s" in row:
            return f"drained in {row['drain_s']:.2f} s, {row['wrong']} stayed open"
        return f"{row['line']}: p50 {row['p50']:.2f}, p99 {row['p99']:.2f} ms, {row['wrong']} wrong"

    def reading(self, rows: Rows) -> Iterator[str]:
        for arm in self.arms:
            own = [line for line in rows.lines("resident_kib") if line.startswith(f"{arm}: ")]
            if not own:
                continue
            low, top = own[0], own[-1]
            yield (
                f"{top.capitalize()} connections take {cell(rows.values(top, 'resident_kib'), 0, 1 / 1024)} MiB in all "
                f"servers. The p99 of live requests is {cell(rows.values(top, 'p99'), 2)} ms with them, and "
                f"{cell(rows.values(low, 'p99'), 2)} ms without. A drain takes "
                f"{cell(rows.values(f'{arm}: drain', 'drain_s'), 2)} s."
            )

    def report(self, page: Page, rows: Rows) -> None:
        latencies = (("p50, ms", "p50", 2), ("p99, ms", "p99", 2), ("longest, ms", "max", 1))
        columns = (
            ("parked", "parked", 0),
            *latencies,
            ("CPU per live request, µs", "cpu_us", 1),
            ("CPU of the wait alone, % of a core", "quiet_cores", 2, 100),
            ("servers, MiB", "resident_kib", 0, 1 / 1024),
            ("KiB each", "kib", 2),
            ("kernel's objects, KiB each", "kernel_kib.slab", 1),
            ("sockets' buffers, KiB each", "kernel_kib.buffers", 2),
            ("opened, /s", "opened_per_second", 0),
        )
        rungs = rows.lines("resident_kib")
        rows.table(page, columns, rungs)
        woken = (
            *(("asked", "requests", 0), ("wrong", "wrong", 0), ("woken", "wakes", 0)),
            *(("CPU each, µs", "cpu_us", 1), *latencies, ("live p99, ms", "live_p99", 2)),
        )
        page.text("At the top, one request on each connection:")
        rows.table(page, woken, rows.lines("wakes"))
        drain = (
            *(("after SIGTERM, s", "drain_s", 2), ("connections", "requests", 0)),
            ("stayed open, or no exit", "wrong", 0),
        )
        rows.table(page, drain, rows.lines("drain_s"))
        page.plot(_plot(rows, rungs))


def _plot(rows: Rows, rungs: Sequence[str]) -> Plot:
    def series(figure: str) -> list[Series]:
        found: dict[str, Series] = {}
        for line in rungs:
            arm, _, count = line.partition(": ")
            point = int(count.replace(",", "")), rows.values(line, figure)
            found.setdefault(arm, Series(arm)).points.append(point)
        return list(found.values())

    figures = {"p99": "p99 of live requests, ms", "resident_kib": "memory of the servers, KiB"}
    panels = [
        Panel(series(figure), title, "connections", kind="lines")
        for figure, title in figures.items()
    ]
    return Plot("By idle connections", panels, name="climb", columns=2)


def _climb(stand: ConnectionsStand, name: str) -> Iterator[Row]:
    """Everything that one arm shows."""
    arm, top, cpus = ARMS[name], stand.count(RUNGS[-1]), stand.cpus
    count = -(-top // (most_connections() - LIVE))
    servers = [arm.server(stand, -(-top // count) + LIVE) for _ in range(count)]
    program = stand.programs.generator
    with (
        fleet(servers, stand.programs, [cpus[0]]) as serving,
        holders(program, serving.to, stand.clients, count) as held,
        live(program, serving.to, cpus[1], RATE, LIVE) as requests,
    ):
        requests.measure(stand.plan.seconds(1.0))
        so_far, before = 0, (serving.resident_kib()["server"], kernel_kib())
        for usual in RUNGS:
            connections = stand.count(usual, least=0)
            more = held.fill(connections - so_far) if connections > so_far else None
            so_far = connections
            serving.rest(connections if arm.parks else 0)
            opened = (more.count / more.seconds) if more else None
            rung = _rung(stand, serving, held, requests, connections, before)
            parked = serving.total(PARKED) if arm.parks else 0
            line = f"{name}: {connections:,}"
            yield {"line": line, "parked": parked, "opened_per_second": opened, **rung}
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


def _rung(
    stand: ConnectionsStand,
    serving: Fleet,
    held: Holders,
    requests: Live,
    connections: int,
    before: tuple[int, dict[str, float]],
) -> Row:
    time.sleep(SETTLE)
    watch = Watch(serving.cpu_seconds)
    time.sleep(stand.plan.seconds(QUIET))
    quiet = watch.seen()
    watch = Watch(serving.cpu_seconds)
    found = requests.measure(stand.plan.seconds(SECONDS))
    seen = watch.seen(found["generator_cpu_seconds"])
    lost = connections - held.look()["open"] if connections else 0
    resident, kernel = serving.resident_kib()["server"], kernel_kib()
    grown = {name: kernel[name] - before[1][name] for name in kernel}
    each = (
        {
            "kib": (resident - before[0]) / connections,
            "kernel_kib": {name: kib / connections for name, kib in grown.items()},
        }
        if connections
        else {}
    )
    return {
        **found,
        **seen,
        "wrong": found["wrong"] + lost,
        "cpu_us": seen["cpu_seconds"] / max(1, found["requests"]) * 1e6,
        "quiet_cores": quiet["cpu_seconds"] / quiet["wall"],
        "resident_kib": resident,
        **each,
    }


def _wake(serving: Fleet, held: Holders, beside: Live | None, parks: bool) -> Row:
    """One request on each connection, and then all wait again."""
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
    return {
        "requests": stage.count + other["requests"],
        "wrong": stage.count - len(times) + other["wrong"],
        "faults": stage.faults,
        "wakes": serving.total(WAKES) - wakes,
        "cpu_us": used / max(1, stage.count + other["requests"]) * 1e6,
        "live_p99": other.get("p99"),
        **quantiles(times),
    }


def _left(held: Holders) -> int:
    """Connections whose clients have not received the end yet, because it is in transit."""
    deadline = time.monotonic() + 5.0
    while (left := held.look()["open"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
