"""Expected work on a chosen lane that takes none of its CPU: a request that waits there.

A woken connection goes to the lane with the least expected work, and a lane is expected to do a request's work until
that has a reply. So one dear request that a fault lets wait sends all connections that wake on its lane to the other.
"""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager

from loadtests.bench.experiment.servers import HOST, PATIENCE
from loadtests.bench.moving.replica import Server
from tools.errors import ToolError

FLAGS = ("--faults", "on")
"""Of the server."""

EXPECTED_MS = 3.0
"""Of the dear request: more than the difference that lets a connection move."""

WAIT = "150ms"
"""For as long as the requests of a cycle come."""
TRIES = 64


def prepare(server: Server, ops: int) -> None:
    """Lets every `/work` wait, after each lane has learned what it takes."""
    for lane in (0, 1):
        with on_lane(server, lane, ops):
            pass
    connection = http.client.HTTPConnection(HOST, server.admin_port, timeout=PATIENCE)
    fault = {"route": "/work", "share": 1, "latency": {"fixed": WAIT}, "expires_in": "10m"}
    try:
        connection.request("PUT", "/faults", json.dumps({"faults": [fault]}))
        reply = connection.getresponse()
        if reply.status >= 300:
            raise ToolError(f"/faults: {reply.status} {reply.read().decode()}")
    finally:
        connection.close()


@contextmanager
def on_lane(server: Server, lane: int, ops: int) -> Iterator[None]:
    """A request begins on this lane before, and is answered after what is done meanwhile."""
    connection = _seated(server, lane)
    try:
        connection.request("GET", f"/work?ops={ops}")
        yield
        reply = connection.getresponse()
        reply.read()
    finally:
        connection.close()
    if reply.status != 200 or reply.headers["corelane-lane"] != str(lane):
        raise ToolError(
            f"/work on lane {lane}: {reply.status} from {reply.headers['corelane-lane']}"
        )


def _seated(server: Server, lane: int) -> http.client.HTTPConnection:
    """A new connection on this lane."""
    host, _, port = server.address.rpartition(":")
    for _ in range(TRIES):
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        connection.request("GET", "/hello")
        reply = connection.getresponse()
        reply.read()
        if reply.headers["corelane-lane"] == str(lane):
            return connection
        connection.close()
    raise ToolError(f"{TRIES} connections in a row were not on lane {lane}")
