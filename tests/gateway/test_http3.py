"""HTTP/3 at the gateway, with a QUIC client."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection, Setting
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamReset

from stack import PATIENCE, agents, eventually
from stack.credentials import certificate
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Reply, ask
from stack.programs import program
from stack.replica import Server


class Http3Client(QuicConnectionProtocol):
    """A connection whose requests are answered one at a time."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self._http = H3Connection(self._quic)
        self._reply: asyncio.Future[Reply] | None = None
        self._stream: int | None = None
        self._headers: dict[str, str] = {}
        self._body = b""

    def offers_websockets(self) -> bool:
        """Whether the peer's settings allow extended CONNECT (RFC 9220)."""
        settings = self._http.received_settings
        assert settings, "no settings yet"
        return bool(settings.get(Setting.ENABLE_CONNECT_PROTOCOL))

    async def ask(
        self,
        url: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Reply:
        """Sends one request and reads the complete response."""
        parts = urlsplit(url)
        head = {":method": method, ":scheme": "https", ":authority": parts.netloc}
        head[":path"] = f"{parts.path}?{parts.query}" if parts.query else parts.path
        if body:
            head["content-length"] = str(len(body))
        self._headers, self._body = {}, b""
        self._reply = self._loop.create_future()
        fields = [
            (name.encode(), value.encode()) for name, value in {**head, **(headers or {})}.items()
        ]
        self._stream = self._quic.get_next_available_stream_id()
        self._http.send_headers(self._stream, fields, end_stream=not body)
        if body:
            self._http.send_data(self._stream, body, end_stream=True)
        self.transmit()
        return await asyncio.wait_for(self._reply, PATIENCE)

    def quic_event_received(self, event: QuicEvent) -> None:
        """Collects the parts of a response, which may arrive after the request is no longer read."""
        reset = isinstance(event, StreamReset) and event.stream_id == self._stream
        over = reset or isinstance(event, ConnectionTerminated)
        if over and self._reply and not self._reply.done():
            self._reply.set_exception(ConnectionResetError(str(event)))
        for part in self._http.handle_event(event):
            if part.stream_id != self._stream:
                continue
            if isinstance(part, HeadersReceived):
                self._headers |= {name.decode(): value.decode() for name, value in part.headers}
            if isinstance(part, DataReceived):
                self._body += part.data
            if part.stream_ended and self._reply and not self._reply.done():
                status = int(self._headers.pop(":status"))
                self._reply.set_result(Reply(status, self._headers, self._body))


@asynccontextmanager
async def http3(url: str, authority: Path) -> AsyncIterator[Http3Client]:
    """Connects to this host and port, and trusts one certificate."""
    address = urlsplit(url)
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, server_name=address.hostname)
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.load_verify_locations(cafile=str(authority))
    async with connect(
        "127.0.0.1", address.port, configuration=configuration, create_protocol=Http3Client
    ) as client:
        yield client


def ask_once(url: str, authority: Path, **more: object) -> Reply:
    """Sends one request on a separate connection."""

    async def alone() -> Reply:
        async with asyncio.timeout(PATIENCE), http3(url, authority) as client:
            return await client.ask(url, **more)

    return asyncio.run(alone())


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns a certificate and its key."""
    return certificate(tmp_path_factory.mktemp("certificate"), "tls", "ec")


@contextmanager
def gateway_before(server: Server, pair: tuple[Path, Path], folder: Path) -> Iterator[Gateway]:
    """Starts a gateway with TLS and HTTP/3, which also has a port without TLS."""
    files = {"certificate": str(pair[0]), "key": str(pair[1])}
    values = {
        "tls": {"enabled": True, "files": files, "plain": "serve"},
        "http3": {"enabled": True, "advertisedPort": 4433},
        "listener": {"bodyBytes": 1000},
        "upstream": {"upgrade": ["websocket"]},
    }
    with gateway_to([endpoint(server.url, server.admin)], folder, values=values) as running:
        eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
        yield running


@pytest.fixture(scope="module")
def gateway(
    server: Server, pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yields a gateway for the tests that do not change it."""
    with gateway_before(server, pair, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def test_requests_are_read_and_answered_as_by_tcp(
    gateway: Gateway, pair: tuple[Path, Path]
) -> None:
    async def talk() -> None:
        async with asyncio.timeout(PATIENCE), http3(gateway.tls, pair[0]) as client:
            replies = [await client.ask(f"{gateway.tls}/hello?n={n}") for n in range(3)]
            assert {(each.status, each.replica, each.body) for each in replies} == {
                (200, "test", b"Hello, World!")
            }
            # Envoy's HTTP/3 resets the stream where HTTP/1.1 responds with 400.
            with pytest.raises(ConnectionResetError):
                await client.ask(f"{gateway.tls}/refused", headers={"content_length": "0"})
            assert (await client.ask(f"{gateway.tls}/hello?n=3")).status == 200
            # Clients then use TCP for WebSockets, which the routes of this gateway allow.
            assert not client.offers_websockets()

    asyncio.run(talk())
    assert gateway.logged("/hello?n=1")["protocol"] == "HTTP/3"
    large = ask_once(f"{gateway.tls}/hello", pair[0], method="POST", body=b"x" * 1001)
    assert (large.status, json.loads(large.body)["title"]) == (413, "Payload Too Large")


def test_replies_by_tls_tell_of_http3(gateway: Gateway, pair: tuple[Path, Path]) -> None:
    over_tls = ask(gateway.tls, "/hello", authority=pair[0])
    assert over_tls.status == 200
    assert over_tls.headers["alt-svc"] == 'h3=":4433"; ma=86400'
    assert "alt-svc" not in ask(gateway.url, "/hello").headers
    assert "alt-svc" not in ask_once(f"{gateway.tls}/hello", pair[0]).headers


def test_a_drain_waits_for_requests_by_http3(
    server: Server, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    flags = ("--settle=0s", "--deadline=10m")
    # Built now, not while the server is stopped.
    program("gateway-agent")

    async def talk(gateway: Gateway) -> None:
        async with asyncio.timeout(PATIENCE), http3(gateway.tls, pair[0]) as client:
            assert (await client.ask(f"{gateway.tls}/hello")).status == 200
            server.freeze()
            asking = asyncio.create_task(client.ask(f"{gateway.tls}/hello"))
            while gateway.counted("http.ingress.downstream_rq_active") != 1:
                await asyncio.sleep(0.02)
            with agents.drain(gateway, tmp_path, *flags) as drain:
                await asyncio.to_thread(drain.wait_for, "drain: settled")
                assert drain.running
                server.thaw()
                assert (await asking).status == 200
                # The response arrived with a GOAWAY, so the gateway closes the connection when the
                # client sends no more requests.
                code, last = await asyncio.to_thread(drain.end)
                assert (code, last["message"]) == (0, "drain: ended")

    with gateway_before(server, pair, tmp_path) as gateway:
        try:
            asyncio.run(talk(gateway))
        finally:
            server.thaw()


def test_the_listener_is_udp_on_the_port_of_tls(gateway: Gateway) -> None:
    shown = json.loads(ask(gateway.admin, "/listeners?format=json").body)
    found = {
        entry["name"]: entry["local_address"]["socket_address"]
        for entry in shown["listener_statuses"]
    }
    assert set(found) == {"ingress", "ingress_tls", "ingress_http3", "stats"}
    port = urlsplit(gateway.tls).port
    assert found["ingress_http3"]["port_value"] == found["ingress_tls"]["port_value"] == port
