"""WebSockets through the real Envoy, also with third-party clients, and offers of other protocols."""

import re
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as websocket

from gateway.test_protocols import Example, gateway, run
from stack import PATIENCE, becomes, eventually
from stack.gateway import Gateway
from stack.http import ask
from stack.programs import example
from support import http2
from support.http2 import Connection, WebSocketOverHttp2
from support.raw import connect, read_until

__all__ = ["gateway", "run"]

WEBSOCKETS = {"upstream": {"upgrade": ["websocket"]}}


def over_http1(url: str) -> ClientConnection:
    """Opens a WebSocket with the `websockets` package, which offers compression."""
    address = f"{url.replace('http', 'ws')}/echo"
    return websocket(address, open_timeout=PATIENCE, ping_interval=None)


KINDS = (over_http1, WebSocketOverHttp2)


def echoes(client: ClientConnection | WebSocketOverHttp2, text: str) -> bool:
    """Whether a message comes back."""
    client.send(text)
    return client.recv(PATIENCE) == text


def test_websockets_carry_messages_until_their_replica_drains(
    run: Callable[..., Example], gateway: Callable[..., Gateway]
) -> None:
    replica = run(example("websocket"))
    running = gateway(WEBSOCKETS | {"listener": {"bodyBytes": 1000}}, replica.url)
    with ExitStack() as stack:
        clients = [stack.enter_context(kind(running.url)) for kind in KINDS]
        for client in clients:
            # In total, these messages exceed the limit for a request body.
            assert all(echoes(client, f"{number:0100}") for number in range(20))
        # Over HTTP/1.1 this is an offer, which the gateway ignores, so that the replica receives a plain
        # request.
        assert status(running.url, handshake(protocol=b"other")) == 400
        with Connection(running.url) as other:
            other.send(http2.opened(1, http2.websocket(b"/echo", b"other")))
            assert other.outcome() == 403
        replica.drain()
        for client in clients:
            with pytest.raises(ConnectionClosed) as closed:
                client.recv(PATIENCE)
            assert closed.value.rcvd.code == CloseCode.GOING_AWAY
        assert replica.end().endswith("0 connections were cut\n")


def test_a_websocket_without_a_message_ends(
    run: Callable[..., Example], gateway: Callable[..., Gateway]
) -> None:
    # The timeout is longer than the other clients can be silent on a busy machine.
    values = WEBSOCKETS | {"listener": {"timeouts": {"upgraded": "2s"}}}
    running = gateway(values, run(example("websocket")).url)
    with ExitStack() as stack:
        quiet, busy = ([stack.enter_context(kind(running.url)) for kind in KINDS] for _ in range(2))

        def ended() -> bool:
            assert all(echoes(client, "still here") for client in busy)
            for client in [*quiet]:
                try:
                    with suppress(TimeoutError):
                        client.recv(0.01)
                except ConnectionClosed:
                    quiet.remove(client)
            return not quiet

        eventually(ended, "the end of the silent ones")
        assert all(echoes(client, "and now") for client in busy)


def test_websockets_are_balanced_by_their_number(
    run: Callable[..., Example], gateway: Callable[..., Gateway]
) -> None:
    replicas = [run(example("websocket")).url for _ in range(2)]
    running = gateway(WEBSOCKETS, *replicas)

    def active() -> dict[str, int]:
        shown = ask(running.admin, "/clusters").body.decode()
        found = re.findall(r"^server::127.0.0.1:(\d+)::rq_active::(\d+)$", shown, re.MULTILINE)
        return {f"http://127.0.0.1:{port}": int(count) for port, count in found}

    with ExitStack() as stack:
        for kind in KINDS * 4:
            assert echoes(stack.enter_context(kind(running.url)), "here")
        becomes(active, dict.fromkeys(replicas, 4))


NODE = """
const session = require("node:http2").connect(process.argv[1])
session.once("remoteSettings", () => {
  const stream = session.request({":method": "CONNECT", ":protocol": "websocket", ":path": "/echo",
    "sec-websocket-version": "13"})
  stream.once("response", (head) => {
    if (head[":status"] !== 200) throw Error(head[":status"])
    // "here", masked with zeros.
    stream.write(Buffer.from("818400000000" + "68657265", "hex"))
  })
  stream.once("data", (data) => { console.log(data.toString("latin1").slice(2)); session.destroy() })
})
"""


def node(url: str) -> None:
    """Checks an echo over HTTP/2 with Node's client, which uses this method only if the server
    offers it (RFC 8441)."""
    argv = ["node", "--eval", NODE, url]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == ("here\n", "")


@pytest.mark.parametrize("protocol", ["http1", "auto"])
def test_clients_of_others_open_websockets(
    run: Callable[..., Example], gateway: Callable[..., Gateway], protocol: str
) -> None:
    # With http2 and grpc, the chart rejects upgrades.
    values = {"upstream": {"upgrade": ["websocket"], "protocol": protocol}}
    running = gateway(values, run(example("websocket")).url)
    with over_http1(running.url) as client:
        assert echoes(client, "here")
    node(running.url)


def handshake(
    start: bytes = b"GET /echo HTTP/1.1",
    protocol: bytes = b"websocket",
    more: bytes = b"",
    body: bytes = b"",
    **without: bool,
) -> bytes:
    """Returns a request for a WebSocket; fields can be omitted."""
    fields = {
        b"Host": b"gateway",
        b"Connection": b"Upgrade",
        b"Upgrade": protocol,
        b"Sec-WebSocket-Version": b"13",
        b"Sec-WebSocket-Key": b"dGhlIHNhbXBsZSBub25jZQ==",
    }
    left = [b"%b: %b\r\n" % (name, value) for name, value in fields.items()]
    left = [line for line in left if not any(key.encode() in line.lower() for key in without)]
    return start + b"\r\n" + b"".join(left) + more + b"\r\n" + body


# Each entry has the replica's status, and the gateway's status if it differs.
HANDSHAKES = {
    "good": (handshake(), 101),
    "words in another case": (handshake(protocol=b"WebSocket"), 101),
    "no body": (handshake(more=b"Content-Length: 0\r\n"), 101),
    "no key": (handshake(key=False), 400),
    "another version": (handshake().replace(b"13", b"12"), 400),
    "not for this connection": (handshake(connection=False), 400),
    "another protocol": (handshake(protocol=b"TLS/1.2"), 400),
    "another method": (handshake(b"POST /echo HTTP/1.1"), 405),
    # The replica ignores these offers. Envoy rejects them, because it could only forward them as
    # requests that never end.
    "HTTP/1.0": (handshake(b"GET /echo HTTP/1.0"), 426, 400),
    "a body": (handshake(more=b"Content-Length: 2\r\n", body=b"hi"), 426, 400),
    "chunks": (handshake(more=b"Transfer-Encoding: chunked\r\n", body=b"0\r\n\r\n"), 426, 400),
    # The replica expects one word; Envoy keeps only the word that the route accepts.
    "one of several": (handshake(protocol=b"TLS/1.2, websocket"), 400, 101),
}


def status(url: str, request: bytes) -> int:
    """Returns the status of the response."""
    with connect(url) as client:
        client.sendall(request)
        return int(read_until(client, b"\r\n").split()[1])


@pytest.mark.parametrize("protocol", ["http1", "auto"])
def test_the_gateway_judges_handshakes_as_the_replica_does(
    run: Callable[..., Example], gateway: Callable[..., Gateway], protocol: str
) -> None:
    replica = run(example("websocket")).url
    values = {"upstream": {"upgrade": ["websocket"], "protocol": protocol}}
    running = gateway(values, replica)
    found = {
        name: (status(replica, request), status(running.url, request))
        for name, (request, *_) in HANDSHAKES.items()
    }
    assert found == {name: (case[1], case[-1]) for name, case in HANDSHAKES.items()}
