"""The memory of an idle connection, compared with nginx."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from loadtests.bench.connections.clients import holders
from loadtests.bench.connections.part import ConnectionsStand, Part, Rows
from loadtests.bench.connections.servers import PARKED, Nginx, Replica, fleet
from loadtests.bench.cpu import Watch
from loadtests.bench.experiment.page import Page, cell
from loadtests.bench.experiment.plan import Row
from loadtests.bench.networks import kernel_kib

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
