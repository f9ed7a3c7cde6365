"""Saturated and uneven lanes; CPUs throttled by a quota."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

from dashboards.drill import cgroup
from dashboards.drill.drills import Labels, drill
from dashboards.drill.parts import Server
from dashboards.drill.place import Place
from support.client import Client

BURN = "100ms"


@drill(
    "CorelaneLaneSaturated",
    "CorelaneQueueLong",
    "CorelaneExpectedWait",
    "CorelaneCapacityShort",
    how="eight clients, one lane with one slot and a queue of ten, 100 ms of CPU per request "
    "(fault injection); the load ends",
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
        yield {"job": "server"}


@drill(
    "CorelaneLanesUneven",
    how="all requests use connections of one of two lanes; the load ends",
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
    """A connection that the kernel's hash assigned to this lane."""
    while True:
        client = Client(server.url)
        if json.loads(client.ask("/").body)["lane"] == lane:
            return client
        client.close()


@drill(
    "CorelanePodsUneven",
    how="all requests go directly to one of two replicas; the load ends",
    fires=300,
    busy=True,
)
def pods_uneven(place: Place) -> Iterator[Labels]:
    busy = place.server("--faults", "on", "--lanes", "1")
    place.server("--lanes", "1", pod="server-1")
    place.begins()
    busy.fault("/hello", cpu={"burn": BURN})
    with place.load(busy.url, clients=1):
        yield {"job": "server"}


@drill(
    "CorelaneThrottledWhilePinned",
    how="a pinned replica under load in a cgroup with a quota of 0.1 CPU; the quota is removed",
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
