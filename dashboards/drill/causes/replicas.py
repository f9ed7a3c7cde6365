"""Causes: replicas that crash, hang, stall, shed or reject, and lanes that are saturated, uneven or
throttled.
"""

import json
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dashboards.drill import cgroup
from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place, Server
from stack import HOST, credentials
from stack.http import Client, ask
from stack.ports import free_ports
from stack.postgres import Database, Settings, holding, make
from stack.process import running
from tools.resolve import tool


@drill("CorelaneReplicaDown", how="a replica is killed with SIGKILL, then restarts")
def replica_killed(place: Place) -> Iterator[Labels]:
    server = place.server()
    place.begins()
    server.kill()
    yield {"service": "server", "pod": server.name}
    server.start()


@drill("CorelaneReplicaDown", how="a replica is paused with SIGSTOP, then resumed")
def replica_stopped(place: Place) -> Iterator[Labels]:
    server = place.server()
    place.begins()
    server.signal(signal.SIGSTOP)
    yield {"service": "server", "pod": server.name}
    server.signal(signal.SIGCONT)


@drill(
    "CorelaneReplicaRestarting",
    how="a replica is killed every few seconds, then stays up",
)
def replica_restarts(place: Place) -> Iterator[Labels]:
    server = place.server()
    place.begins()
    with place.again(lambda: _restart(place, server), pause=1):
        yield {"service": "server", "pod": server.name}
    place.until(server.ready, "the replica is up")


def _restart(place: Place, server: Server) -> None:
    begun = _started(place)
    # The start time is in whole seconds, from a clock that may lag by one second.
    place.until(lambda: time.time() > begun + 2, "two seconds")
    server.kill()
    server.start()
    place.until(lambda: _started(place) > begun, "the new process is scraped")


def _started(place: Place) -> float:
    """The replica's last start time in Prometheus; 0 if Prometheus has no start time."""
    series = f'process_start_time_seconds{{namespace="{place.namespace}", job="service"}}'
    return max((each["value"] for each in place.watch.query(series)), default=0.0)


@drill(
    "CorelaneDrainStuck",
    how="the main thread freezes after SIGTERM (cgroup freezer), then thaws",
)
def drain_stuck(place: Place) -> Iterator[Labels]:
    freezer = place.stack.enter_context(cgroup.freezer())
    server = place.server("--drain.settle", "4s", "--drain.deadline", "5s")
    place.stack.callback(freezer.thaw)
    place.begins()
    server.signal(signal.SIGTERM)
    # The process's first thread has the process's ID. The other threads, including the admin port's
    # thread, continue.
    place.until(lambda: b'"settling"' in ask(server.admin, "/lanes").body, "the drain begins")
    # The process's first thread has the process's id. The other threads, including the admin port's
    # thread, continue.
    freezer.freeze(server.pid, thread=server.pid)
    yield {"service": "server", "pod": server.name}
    freezer.thaw()
    place.until(lambda: not server.running, "the replica has ended")


@drill(
    "CorelaneStall",
    how="a handler computes for 2 s on its lane (fault injection), then the fault is removed",
)
def stall(place: Place) -> Iterator[Labels]:
    server = place.server("--faults", "on")
    place.begins()
    server.fault("/hello", cpu={"burn": "2s"})
    ask(server.url, "/hello")
    yield {"pod": server.name, "route": "/hello"}
    server.faults()


@drill(
    "CorelaneShedding",
    how="four clients send 300 ms requests (fault injection) to one slot without a queue, then three clients disconnect",
)
def shedding(place: Place) -> Iterator[Labels]:
    server = place.server("--faults", "on", "--limits.slots", "1", "--limits.queue", "0")
    place.begins()
    server.fault("/hello", latency={"fixed": "300ms", "jitter": "0s"})
    with place.load(server.url, clients=1), place.load(server.url, clients=3, rate=20):
        yield {"pod": server.name}


@drill(
    "CorelaneConnectionsRefused",
    how="a replica reaches its limit of four connections and rejects others, then the connections close",
)
def connections_refused(place: Place) -> Iterator[Labels]:
    server = place.server("--limits.connections", "4")
    place.begins()
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(socket.create_connection((HOST, server.port)))
        with place.again(lambda: ask(server.url, "/hello")):
            yield {"pod": server.name, "reason": "limit"}


@drill(
    "CorelaneMemoryHigh",
    how="a replica's memory limit falls to 1.08 times its resident memory, then rises again",
)
def memory_high(place: Place) -> Iterator[Labels]:
    limited = place.stack.enter_context(cgroup.memory())
    ample = 2**30
    limited.limit(ample)
    server = place.server(within=limited.enters)
    place.begins()
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    limited.limit(pages * os.sysconf("SC_PAGE_SIZE") * 108 // 100)
    yield {"pod": server.name}
    limited.limit(ample)


FILES = 2048
"""Limit on open files. A replica with one lane reserves about 300 files that connections cannot
use, so with a lower limit it could never reach 80%.
"""


@drill(
    "CorelaneOpenFilesHigh",
    how="connections use 83% of a replica's open file limit, then close",
)
def files_high(place: Place) -> Iterator[Labels]:
    few = ("sh", "-ec", f'ulimit -n {FILES} && exec "$@"', "sh")
    flags = ("--lanes", "1", "--limits.connections", "1700", "--timeouts.idle", "10m")
    server = place.server(*flags, within=few)
    # This process also needs descriptors for its own ends of the connections.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    place.begins()
    with ExitStack() as stack:
        for _ in range(FILES * 83 // 100):
            client = Client(server.url)
            stack.callback(client.close)
            client.ask("/hello")
        yield {"pod": server.name}


@drill("CorelaneTokensNotReloaded", how="the token file becomes invalid, then valid again")
def tokens_broken(place: Place) -> Iterator[Labels]:
    file = place.folder / "tokens"
    good = credentials.line("drill", credentials.token())
    file.write_text(good)
    server = place.server("--auth.tokens", file)
    place.begins()
    file.write_text("drill sha256:nonsense\n")
    yield {"pod": server.name}
    file.write_text(good)


BURN = "100ms"


@drill(
    "CorelaneLaneSaturated",
    "CorelaneQueueLong",
    "CorelaneExpectedWait",
    "CorelaneCapacityShort",
    how="eight clients send requests that each use 100 ms of CPU time (fault injection) to a lane with one slot and a queue of ten, then stop",
    fires=300,
    busy=True,
)
def lane_full(place: Place) -> Iterator[Labels]:
    server = place.server(
        "--faults", "on", "--lanes", "1", "--limits.slots", "1", "--limits.queue", "10"
    )
    place.begins()
    server.fault("/hello", cpu={"burn": BURN})
    with place.load(server.url, clients=8):
        yield {"service": "server"}


@drill(
    "CorelaneSlowLaneStarving",
    how="eight clients saturate a lane with 10 ms requests, and eight others saturate its slow lane with 50 ms requests (fault injection), then all stop",
    fires=300,
    busy=True,
)
def slow_lane_starves(place: Place) -> Iterator[Labels]:
    routes = ("--slow-lanes.cheap", "/hello", "--slow-lanes.expensive", "/work")
    # Shares the lane's CPU, because the slow lane is never starved on an idle CPU.
    own = ("--faults", "on", "--lanes", "1", "--pin", "on", "--slow-lanes.mode", "on")
    server = place.server(*own, *routes)
    place.begins()
    burns = {"/hello": "10ms", "/work": "50ms"}
    server.faults(
        *(
            {"route": route, "share": 1, "expires_in": "30m", "cpu": {"burn": burn}}
            for route, burn in burns.items()
        )
    )
    with place.load(server.url, clients=8), place.load(server.url, "/work?ops=1", clients=8):
        yield {"pod": server.name}


@drill(
    "CorelaneLanesUneven",
    how="all requests use the connections of one lane out of two",
    fires=300,
    busy=True,
)
def lanes_uneven(place: Place) -> Iterator[Labels]:
    server = place.server("--faults", "on", "--lanes", "2")
    place.begins()
    server.fault("/hello", cpu={"burn": BURN})
    with ExitStack() as stack:
        client = _client_of(server, 0)
        stack.callback(client.close)
        stack.enter_context(place.again(lambda: client.ask("/hello"), pause=0.001))
        yield {"pod": server.name}


def _client_of(server: Server, lane: int) -> Client:
    while True:
        client = Client(server.url)
        if json.loads(client.ask("/").body)["lane"] == lane:
            return client
        client.close()


@drill(
    "CorelanePodsUneven",
    how="all requests go directly to one of two replicas, then stop",
    fires=300,
    busy=True,
)
def pods_uneven(place: Place) -> Iterator[Labels]:
    busy = place.server("--faults", "on", "--lanes", "1")
    place.server("--lanes", "1", pod="server-1")
    place.begins()
    busy.fault("/hello", cpu={"burn": BURN})
    with place.load(busy.url, clients=1):
        yield {"service": "server"}


@drill(
    "CorelaneThrottledWhilePinned",
    how="a loaded, pinned replica gets a quota of 0.1 CPUs (cgroup), which is then removed",
)
def throttled(place: Place) -> Iterator[Labels]:
    quota = place.stack.enter_context(cgroup.quota())
    own = ("--faults", "on", "--lanes", "1", "--pin", "on")
    server = place.server(*own, within=quota.enters)
    server.fault("/hello", cpu={"burn": BURN})
    with place.load(server.url, clients=1):
        place.begins()
        quota.limit(cgroup.PERIOD // 10)
        yield {"pod": server.name}
        quota.limit(None)


BOTH = {"latency": {"fixed": "400ms", "jitter": "0s"}}


@drill(
    "CorelaneGatewayErrors/warning",
    "CorelaneGatewayErrors/critical",
    "CorelaneRouteErrors/warning",
    "CorelaneRouteErrors/critical",
    how="10% of 20 requests per second fail with 500 (fault injection), then good requests lower the share below 0.1%",
    resolves=300,
    busy=True,
)
def budget_of_errors(place: Place) -> Iterator[Labels]:
    yield from _burn(place, 0.1, {"error": {"status": 500}})


@drill(
    "CorelaneGatewaySlow/warning",
    "CorelaneGatewaySlow/critical",
    "CorelaneRouteSlow/warning",
    "CorelaneRouteSlow/critical",
    how="50% of 20 requests per second take 400 ms (fault injection), then fast requests lower the share below 1%",
    resolves=300,
    busy=True,
)
def budget_of_latency(place: Place) -> Iterator[Labels]:
    yield from _burn(place, 0.5, BOTH)


def _burn(place: Place, share: float, fault: dict) -> Iterator[Labels]:
    server = place.server("--faults", "on")
    gateway = place.gateway(server)
    with place.load(gateway.url, clients=8, rate=20):
        place.begins()
        server.fault("/hello", share, **fault)
        yield {}
        server.faults()
    # Keeps running until the end of the drill, so that the alert resolves.
    place.stack.enter_context(_good(place, f"{gateway.url}/hello"))


@contextmanager
def _good(place: Place, url: str) -> Iterator[None]:
    argv = ["nice", tool("ab"), "-k", "-q", "-c", "2", "-t", "600", "-n", "5000000", url]
    with running("ab", argv, place.folder):
        yield


def _postgres(place: Place) -> Database:
    server = make(place.folder / "postgres", Settings(free_ports()))
    place.stack.callback(server.remove)
    server.start()
    return server.database()


def _lists(place: Place, server: Server) -> None:
    place.until(
        lambda: ask(server.url, "/projects").status == 200, f"{server.name} lists its projects"
    )


@drill("CorelaneDatabaseDown", how="PostgreSQL stops, then restarts")
def database_stopped(place: Place) -> Iterator[Labels]:
    database = _postgres(place)
    server = place.server(*database.flags())
    _lists(place, server)
    place.begins()
    database.server.end()
    with place.again(lambda: ask(server.url, "/projects")):
        yield {"pod": server.name}
    database.server.start()


@drill(
    "CorelaneDatabaseExhausted",
    "CorelaneDatabaseBusy",
    how="six clients share one connection (maximum wait 200 ms) while the table is locked, then unlocked",
)
def database_exhausted(place: Place) -> Iterator[Labels]:
    database = _postgres(place)
    small = ("--database.connections", "1", "--database.wait", "200ms", "--lanes", "1")
    server = place.server(*database.flags(), *small, "--database.statement-timeout", "1s")
    _lists(place, server)
    place.begins()
    with (
        holding(database, "LOCK TABLE projects"),
        place.load(server.url, "/projects", clients=6, rate=30),
    ):
        yield {"pod": server.name}


@drill(
    "CorelaneCallRetriesExhausted",
    how="a service calls another service that is down, which then starts",
)
def callee_down(place: Place) -> Iterator[Labels]:
    orders = free_ports(2)
    target = f"http://{HOST}:{orders}"
    caller = place.example("cart", "--orders.url", target, pod="cart-0")
    place.begins()
    with place.load(caller.url, "/orders/7", clients=2, rate=20):
        yield {"pod": caller.name, "callee": "orders"}
        place.example("orders", pod="orders-0", first=orders)
