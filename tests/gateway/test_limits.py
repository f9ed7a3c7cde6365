"""Limits on clients, at the real Envoy in front of the real server."""

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from stack import becomes, eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Client, Reply, ask
from stack.http_server import Request, serving
from stack.replica import Server
from support.http2 import Http2Client
from support.raw import connect, until_end

Start = Callable[[dict], Gateway]


@pytest.fixture
def gateway(server: Server, tmp_path: Path) -> Iterator[Start]:
    """Returns a function that starts a gateway with additional values, and waits until its replica is healthy."""
    with ExitStack() as stack:

        def run(values: dict) -> Gateway:
            replicas = [endpoint(server.url, server.admin)]
            running = stack.enter_context(gateway_to(replicas, tmp_path, values=values))
            eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
            return running

        yield run


def problem(reply: Reply) -> tuple[int, str]:
    """Returns the status and title of the gateway's own response."""
    assert reply.replica is None
    assert reply.headers["content-type"] == "application/problem+json"
    assert json.loads(reply.body)["status"] == reply.status
    return reply.status, json.loads(reply.body)["title"]


def is_closed(connection: socket.socket) -> bool:
    """Waits for data on a connection; returns whether it was closed."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_long_body_is_413(gateway: Start) -> None:
    running = gateway({"listener": {"bodyBytes": 1000}})
    assert ask(running.url, "/hello", "POST", body=b"x" * 1000).status == 405
    long = {"body": b"x" * 1001}
    assert problem(ask(running.url, "/hello", "POST", **long)) == (413, "Payload Too Large")
    # The body is chunked and sent in one write: otherwise the replica would respond to the head
    # before the body exceeds the limit.
    head = b"POST /hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"258\r\n" + b"x" * 600 + b"\r\n"
    with connect(running.url) as client:
        client.sendall(head + chunk + chunk + b"0\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_one_connection_more_is_refused_but_statistics_answer(gateway: Start) -> None:
    running = gateway({"listener": {"connections": 2}})
    clients = [Client(running.url), Client(running.url)]
    assert [client.ask("/hello").status for client in clients] == [200, 200]
    with connect(running.url) as third:
        assert is_closed(third)
    # Envoy closes the connection first, then counts it.
    becomes(lambda: running.counted("listener.ingress.downstream_global_cx_overflow"), 1)
    shown = ask(running.stats, "/stats/prometheus")
    assert b"envoy_listener_downstream_global_cx_overflow" in shown.body
    assert running.ready()
    clients[0].close()
    eventually(lambda: running.counted("listener.ingress.downstream_cx_active") == 1)
    assert ask(running.url, "/hello").status == 200
    clients[1].close()


@pytest.mark.parametrize("connect", [Client, Http2Client])
def test_an_old_connection_is_closed_after_a_reply_and_no_request_fails(
    gateway: Start, connect: Callable[[str], Client | Http2Client]
) -> None:
    running = gateway({"listener": {"timeouts": {"age": "300ms", "ageJitter": 0}}})
    client = connect(running.url)
    replies = [client.ask("/hello")]
    while replies[-1].headers.get("connection") != "close":
        replies.append(client.ask("/hello"))
    client.close()
    assert {reply.status for reply in replies} == {200}
    assert running.counted("http.ingress.downstream_cx_max_duration_reached") == 1


def test_requests_above_the_rate_are_429_and_say_when_to_return(gateway: Start) -> None:
    running = gateway({"rateLimit": {"enabled": True, "requests": 1, "burst": 3}})
    client = Client(running.url)
    replies = [client.ask("/hello") for _ in range(50)]
    client.close()
    assert [reply.status for reply in replies[:3]] == [200] * 3
    refused = next(reply for reply in replies if reply.status != 200)
    assert problem(refused) == (429, "Too Many Requests")
    assert int(refused.headers["retry-after"]) <= 1
    assert refused.headers["x-ratelimit-limit"].startswith("3")
    assert running.counted("ingress.http_local_rate_limit.rate_limited") >= 1


def other_gateways(folder: Path, number: int) -> None:
    """Writes the agent's file with this number of gateways."""
    addresses = [{"address": f"192.0.2.{last}", "port_value": 8080} for last in range(number)]
    hosts = [{"endpoint": {"address": {"socket_address": each}}} for each in addresses]
    kind = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    own = {"@type": kind, "cluster_name": "gateways", "endpoints": [{"lb_endpoints": hosts}]}
    (folder / "next").write_text(json.dumps({"resources": [own]}))
    (folder / "next").rename(folder / "gateways.json")


def passed(gateway: Gateway, path: str, **headers: str) -> int:
    """Counts the requests that pass until one exceeds the limit; there is no replica."""
    client = Client(gateway.url)
    count = 0
    while client.ask(path, headers=headers).status != 429:
        count += 1
    client.close()
    return count


def test_gateways_share_a_limit_while_their_number_changes(tmp_path: Path) -> None:
    replica = {"name": "none", "endpoints": [{"address": "127.0.0.1", "port": 1, "adminPort": 1}]}
    tenant = {"header": "x-tenant", "requests": 1, "burst": 12}
    # Each bucket holds 120 tokens and is not refilled during the test, so the number of requests
    # that pass does not depend on time.
    bucket = {"requests": 1, "burst": 120, "interval": "1h"}

    def route(name: str, limit: dict) -> dict:
        return {
            "name": name,
            "path": {"prefix": f"/{name}"},
            "service": replica,
            "rateLimit": limit,
        }

    routes = [route(name, bucket) for name in ("one", "three", "two")]
    routes.append(route("tenants", bucket | {"keys": [tenant]}))
    # No replica answers, so retries would only take time.
    never = {"retries": {"attempts": 0}}
    values = {"rateLimit": {"scope": "release"}, "routes": routes, "upstream": never}
    with ExitStack() as stack:
        folders = [tmp_path / name for name in "abc"]
        for folder in folders:
            folder.mkdir()
            other_gateways(folder, 1)
        running = [stack.enter_context(gateway_to([], folders[0], values))]

        def become(number: int) -> None:
            for folder, each in zip(folders, running, strict=False):
                other_gateways(folder, number)
                becomes(lambda it=each: it.counted("cluster.gateways.membership_total"), number)

        assert [passed(each, "/one") for each in running] == [120]
        running += [stack.enter_context(gateway_to([], it, values)) for it in folders[1:]]
        become(3)
        assert [passed(each, "/three") for each in running] == [40, 40, 40]
        tenants = [passed(running[0], "/tenants", **{"x-tenant": name}) for name in ("ada", "bob")]
        assert tenants == [4, 4]
        running.pop().process.terminate()
        become(2)
        assert [passed(each, "/two") for each in running] == [60, 60]


def test_one_client_cannot_take_the_rate_of_others(gateway: Start) -> None:
    limit = {"enabled": True, "perClient": {"requests": 1, "burst": 2}}
    running = gateway({"rateLimit": limit, "listener": {"trustedHops": 1}})
    client = Client(running.url)

    def status(address: str) -> int:
        return client.ask("/hello", headers={"x-forwarded-for": address}).status

    assert 429 in [status("203.0.113.1") for _ in range(50)]
    assert [status("203.0.113.2"), status("203.0.113.3")] == [200, 200]
    client.close()


@pytest.fixture
def full(server: Server, tmp_path: Path) -> Callable[[dict], AbstractContextManager[Gateway]]:
    """Starts a gateway whose heap exceeds its memory from the start."""

    def run(overload: dict) -> AbstractContextManager[Gateway]:
        values = {"memory": "1Mi", "overload": overload}
        return gateway_to([endpoint(server.url, server.admin)], tmp_path, values=values)

    return run


def acts(gateway: Gateway, name: str) -> bool:
    """Whether an overload action is active."""
    return gateway.counted(f"overload.envoy.{name}.scale_percent") == 100


def test_without_memory_connections_are_refused_but_statistics_answer(
    full: Callable[[dict], AbstractContextManager[Gateway]],
) -> None:
    with full({}) as gateway:
        eventually(lambda: acts(gateway, "load_shed_points.tcp_listener_accept"))
        with connect(gateway.url) as refused:
            assert is_closed(refused)
        # Envoy closes the connection first, then counts it.
        eventually(lambda: gateway.counted("listener.ingress.downstream_cx_overload_reject") >= 1)
        assert gateway.ready()


def test_without_memory_requests_are_503_on_connections_that_are_there(
    full: Callable[[dict], AbstractContextManager[Gateway]],
) -> None:
    with full({"refuseConnections": 0, "abortRequests": 0}) as gateway:
        eventually(lambda: acts(gateway, "overload_actions.stop_accepting_requests"))
        reply = ask(gateway.url, "/hello")
        assert problem(reply) == (503, "Service Unavailable")
        # The client is also asked to close the connection.
        assert reply.headers["connection"] == "close"


def large(request: Request) -> None:
    """Sends responses with as many fields, or KiB of fields, as the path specifies."""
    kind, _, number = request.path[1:].partition("/")
    cookies = (("Set-Cookie", f"c{index}=v") for index in range(int(number)) if kind == "fields")
    request.reply(200, *cookies, ("X-Long", "x" * (int(number) * 1024 if kind == "kib" else 1)))


@pytest.mark.parametrize(
    ("values", "path", "expected"),
    [
        ({}, "/fields/98", (200, 98, 1)),
        ({}, "/fields/9000", (200, 9000, 1)),
        ({}, "/kib/1000", (200, 0, 1)),
        # For Envoy, a response beyond the limits is a reset, which it retries like any other.
        ({"headers": {"count": 50}, "retries": {"attempts": 1}}, "/fields/60", (502, 0, 2)),
        ({"headers": {"kib": 10}, "retries": {"attempts": 1}}, "/kib/11", (502, 0, 2)),
    ],
)
def test_a_reply_has_more_fields_than_clients_take(
    tmp_path: Path, values: dict, path: str, expected: tuple[int, int, int]
) -> None:
    values = {"upstream": {**values, "health": {"path": "/fields/0"}}}
    seen: Counter[str] = Counter()

    def answer(request: Request) -> None:
        seen[request.path] += 1
        large(request)

    with (
        serving(answer) as replica,
        gateway_to([endpoint(replica, replica)], tmp_path, values) as running,
    ):
        eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
        with connect(running.url) as client:
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            client.sendall(head.encode())
            reply = until_end(client)
    cookies = reply.count(b"\r\nset-cookie:")
    assert (int(reply.split()[1]), cookies, seen[path]) == expected
