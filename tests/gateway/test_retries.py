"""How often a request runs that a replica does not serve: once if its handler has started, never twice."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support import eventually
from support.client import Client, ask
from support.envoys import Gateway, endpoint, gateway_to
from support.raw import connect
from support.servers import Server

SLOTS = ("--lanes", "1", "--limits.slots", "1", "--limits.queue", "0", "--faults", "on")
LATENCY = 'corelane_faults_injected_total{route="/hello",fault="latency"}'
SHED = 'reason="queue_full"'
ARRIVED = "corelane_requests_total"
METHODS = ("GET", "POST")


def summed(server: Server, name: str) -> float:
    """The sum of all series of a name, or of one with labels given."""
    same = (value for series, value in server.metrics().items() if name in series)
    return sum(same)


def slow(server: Server) -> None:
    """Makes each handler of /hello wait for an hour."""
    fault = {"route": "/hello", "share": 1, "expires_in": "1h", "latency": {"fixed": "1m"}}
    body = json.dumps({"faults": [fault]}).encode()
    assert ask(server.admin, "/faults", "PUT", body=body).status == 200


@contextmanager
def held(server: Server) -> Iterator[None]:
    """A server whose only slot is taken: it sheds what comes."""
    slow(server)
    with connect(server.url) as client:
        client.sendall(b"GET /hello HTTP/1.1\r\nHost: held\r\n\r\n")
        eventually(lambda: summed(server, LATENCY) == 1)
        yield


@contextmanager
def gateway_over(replicas: list[Server], folder: Path) -> Iterator[Gateway]:
    """A gateway to these replicas, all of them healthy."""
    with gateway_to([endpoint(each.url, each.admin) for each in replicas], folder) as gateway:
        healthy = "cluster.server.membership_healthy"
        eventually(lambda: gateway.counted(healthy) == len(replicas))
        yield gateway


@pytest.mark.parametrize("method", METHODS)
def test_a_handler_that_took_too_long_does_not_run_again(
    start: Callable[..., Server], tmp_path: Path, method: str
) -> None:
    flags = ("--faults", "on", "--timeouts.request", "1s")
    replicas = [start(*flags, replica=name) for name in ("one", "two")]
    for replica in replicas:
        slow(replica)
    with gateway_over(replicas, tmp_path) as gateway:
        reply = ask(gateway.url, "/hello", method)
        kind = json.loads(reply.body)["type"]
        assert (reply.status, kind) == (503, "urn:corelane:problem:deadline-exceeded")
        assert sum(summed(replica, LATENCY) for replica in replicas) == 1


@pytest.mark.parametrize("method", METHODS)
def test_what_a_replica_sheds_runs_on_another(
    start: Callable[..., Server], tmp_path: Path, method: str
) -> None:
    full, free = start(*SLOTS, replica="full"), start(*SLOTS, replica="free")
    with held(full), gateway_over([full, free], tmp_path) as gateway:
        client = Client(gateway.url)
        replies = [client.ask("/hello", method) for _ in range(20)]
        client.close()
        assert {reply.replica for reply in replies} == {"free"}
        # Else the full one was never asked.
        assert summed(full, SHED) > 0
        assert summed(full, LATENCY) == 1


def test_retries_do_not_multiply_the_overload_of_a_fleet(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    """Each lane of a fleet that sheds everything marks one reply in six, after a burst of 64."""
    replicas = [start(*SLOTS, replica=name) for name in ("one", "two")]
    offered, burst = 1_500, 64 * len(replicas)
    with ExitStack() as stack:
        for replica in replicas:
            stack.enter_context(held(replica))
        gateway = stack.enter_context(gateway_over(replicas, tmp_path))
        client = Client(gateway.url)
        assert {client.ask("/hello").status for _ in range(offered)} == {503}
        client.close()
        arrived = sum(summed(replica, SHED) for replica in replicas)
    assert offered + burst < arrived <= (offered + burst) * 1.2
