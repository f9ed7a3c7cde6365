"""An HTTP/3 client: one connection for each use, one request at a time."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamReset

from support import PATIENCE
from support.client import Reply


class Http3Client(QuicConnectionProtocol):
    """A connection whose requests are answered one after the other."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self._http = H3Connection(self._quic)
        self._reply: asyncio.Future[Reply] | None = None
        self._stream: int | None = None
        self._headers: dict[str, str] = {}
        self._body = b""

    async def ask(
        self,
        url: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Reply:
        """Sends one request and reads its whole reply."""
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
        """Gathers what belongs to the reply, which may still come when the request is read no more."""
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
    """A connection to this host and port that trusts one certificate."""
    address = urlsplit(url)
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, server_name=address.hostname)
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.load_verify_locations(cafile=str(authority))
    async with connect(
        "127.0.0.1", address.port, configuration=configuration, create_protocol=Http3Client
    ) as client:
        yield client


def ask(url: str, authority: Path, **more: object) -> Reply:
    """One request on a connection of its own."""

    async def alone() -> Reply:
        async with asyncio.timeout(PATIENCE), http3(url, authority) as client:
            return await client.ask(url, **more)

    return asyncio.run(alone())
