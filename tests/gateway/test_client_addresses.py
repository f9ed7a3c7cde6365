"""Whom the gateway takes a request to be from."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support import eventually
from support.client import ask
from support.envoys import Gateway, endpoint, gateway_to
from support.servers import Server

Start = Callable[[dict], Gateway]


@pytest.fixture
def gateway(server: Server, tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway with values of its listener, once its replica is healthy."""
    with ExitStack() as stack:

        def run(listener: dict) -> Gateway:
            replicas, values = [endpoint(server.url, server.admin)], {"listener": listener}
            running = stack.enter_context(gateway_to(replicas, tmp_path, values=values))
            eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
            return running

        yield run


@pytest.mark.parametrize(
    ("hops", "client"), [(0, "127.0.0.1"), (1, "203.0.113.7"), (2, "198.51.100.1")]
)
def test_forwarded_addresses_are_believed_of_as_many_proxies_as_are_there(
    gateway: Start, hops: int, client: str
) -> None:
    running = gateway({"trustedHops": hops})
    forged = {"x-forwarded-for": "6.6.6.6, 198.51.100.1, 203.0.113.7"}
    assert ask(running.url, "/hello?from", headers=forged).status == 200
    assert running.logged("/hello?from")["client"] == client


def exchange(gateway: Gateway, sent: bytes) -> bytes:
    """What comes back until the gateway closes."""
    address = urlsplit(gateway.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as client:
        client.sendall(sent)
        received = b""
        try:
            while part := client.recv(65536):
                received += part
        except ConnectionResetError:
            pass
        return received


def test_the_proxy_protocol_says_whose_connection_it_is(gateway: Start) -> None:
    running = gateway({"proxyProtocol": True})
    request = b"GET /hello?by HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head = b"PROXY TCP4 203.0.113.9 192.0.2.1 40000 80\r\n"
    assert exchange(running, head + request).startswith(b"HTTP/1.1 200 OK")
    assert running.logged("/hello?by")["client"] == "203.0.113.9"
    assert exchange(running, request) == b""
