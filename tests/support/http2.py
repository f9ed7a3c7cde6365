"""Raw HTTP/2 connections (RFC 9113) and simple clients based on them."""

import itertools
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Self, TypeVar
from urllib.parse import urlsplit

from hpack import Decoder, Encoder, NeverIndexedHeaderTuple
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from websockets.frames import Opcode
from websockets.protocol import CLOSED, Protocol, Side

from stack import PATIENCE
from stack.http import Reply
from support.raw import connect

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Fields = Iterable[tuple[bytes, bytes]]
Kind = TypeVar("Kind", bound=Frame)


def get(path: bytes = b"/first", *more: tuple[bytes, bytes], method: bytes = b"GET") -> list:
    pseudo = [(b":method", method), (b":scheme", b"http"), (b":path", path)]
    return [*pseudo, (b":authority", b"gateway"), *more]


def websocket(path: bytes, protocol: bytes = b"websocket") -> list:
    """Fields of an RFC 8441 WebSocket request."""
    return get(path, (b":protocol", protocol), (b"sec-websocket-version", b"13"), method=b"CONNECT")


def pack(fields: Fields) -> bytes:
    """Literal encoding without indexing, for any content."""
    return Encoder().encode([NeverIndexedHeaderTuple(*each) for each in fields], huffman=False)


def opened(stream: int, fields: Fields) -> bytes:
    """HEADERS without END_STREAM."""
    return HeadersFrame(stream, pack(fields), flags=["END_HEADERS"]).serialize()


def request(stream: int, fields: Fields, *data: bytes) -> bytes:
    """HEADERS, and a DATA frame for each item of `data`. The last frame ends the stream."""
    head = HeadersFrame(stream, pack(fields), flags=["END_HEADERS"])
    frames = [head, *(DataFrame(stream, each) for each in data)]
    frames[-1].flags.add("END_STREAM")
    return b"".join(each.serialize() for each in frames)


def reset(stream: int) -> bytes:
    return RstStreamFrame(stream, error_code=8).serialize()


class Connection:
    """Sends the preface and stores received frames."""

    def __init__(
        self,
        url: str,
        settings: dict[int, int] | None = None,
        receive_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.socket = connect(url, receive_bytes)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=urlsplit(url).hostname)
        self.frames: list[Frame] = []
        self.fields: dict[int, list[dict[bytes, bytes]]] = defaultdict(list)
        self.ended = False
        self._unread = b""
        self._decoder = Decoder()
        self._pings = itertools.count(1)
        self.send(PREFACE + SettingsFrame(settings=settings).serialize())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Stops early if the peer closes."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.ended = True

    def until(self, seen: Callable[[], object]) -> None:
        """Reads until the condition holds or the connection ends."""
        while not self.ended and not seen():
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            self.ended = not data
            self._unread += data
            while len(self._unread) >= 9:
                frame, size = Frame.parse_frame_header(memoryview(self._unread)[:9])
                if len(self._unread) < 9 + size:
                    break
                frame.parse_body(memoryview(self._unread)[9 : 9 + size])
                self._unread = self._unread[9 + size :]
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        self.frames.append(frame)
        if isinstance(frame, HeadersFrame):
            fields = self._decoder.decode(bytes(frame.data), raw=True)
            self.fields[frame.stream_id].append(dict(fields))
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.send(SettingsFrame(flags=["ACK"]).serialize())
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self.send(PingFrame(opaque_data=frame.opaque_data, flags=["ACK"]).serialize())

    def settle(self) -> None:
        """Waits until the peer has read everything or closed."""
        mark = next(self._pings).to_bytes(8, "big")
        self.send(PingFrame(opaque_data=mark).serialize())
        self.until(lambda: any(each.opaque_data == mark for each in self.of(PingFrame)))

    def of(self, *kinds: type[Kind], stream: int | None = None) -> list[Kind]:
        """Received frames of some kinds, optionally of one stream."""
        return [x for x in self.frames if isinstance(x, kinds) and stream in (None, x.stream_id)]

    def outcome(self, stream: int = 1) -> int | str:
        """Returns the status, `reset`, or `ended` if the connection ended."""

        def over() -> bool:
            if self.of(RstStreamFrame, stream=stream):
                return True
            parts = self.of(HeadersFrame, DataFrame, stream=stream)
            return any("END_STREAM" in each.flags for each in parts)

        self.until(over)
        if self.fields[stream]:
            return self.status(stream)
        return "reset" if self.of(RstStreamFrame, stream=stream) else "ended"

    def status(self, stream: int = 1) -> int:
        return int(self.fields[stream][0][b":status"])


class Http2Client(Connection):
    """Sends one request at a time. Its responses have a single field: `connection: close` after a
    GOAWAY.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(url, tls=tls)
        self._streams = itertools.count(1, 2)
        self._rest = [
            (b":scheme", b"https" if tls else b"http"),
            (b":authority", urlsplit(url).netloc.encode()),
        ]

    def ask(self, path: str) -> Reply:
        stream = next(self._streams)
        fields = [(b":method", b"GET"), (b":path", path.encode()), *self._rest]
        self.send(request(stream, fields))
        status = self.outcome(stream)
        if self.ended or not isinstance(status, int):
            raise ConnectionResetError(f"stream {stream}: {status}")
        body = b"".join(each.data for each in self.of(DataFrame, stream=stream))
        if body:
            self.send(WindowUpdateFrame(0, window_increment=len(body)).serialize())
        self.frames = self.of(GoAwayFrame)
        return Reply(status, {"connection": "close"} if self.frames else {}, body)


class WebSocketOverHttp2:
    """A WebSocket on a stream (RFC 8441), with the API of `websockets.sync.client`."""

    def __init__(self, url: str, path: str = "/echo") -> None:
        self._connection = Connection(url)
        self._connection.until(lambda: self._connection.of(SettingsFrame))
        self._connection.send(opened(1, websocket(path.encode())))
        self._connection.until(lambda: self._connection.fields[1])
        assert self._connection.status() == 200
        self._protocol = Protocol(Side.CLIENT)
        self._messages: list[str] = []
        self._read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, text: str) -> None:
        self._protocol.send_text(text.encode())
        self._flush()

    def recv(self, timeout: float = PATIENCE) -> str:
        """Raises `ConnectionClosed` after the last message."""
        self._connection.socket.settimeout(timeout)
        while not self._messages:
            if self._protocol.state is CLOSED:
                raise self._protocol.close_exc
            self._take()
        return self._messages.pop(0)

    def _take(self) -> None:
        def frames() -> list[DataFrame | RstStreamFrame]:
            return self._connection.of(DataFrame, RstStreamFrame, stream=1)[self._read :]

        self._connection.until(frames)
        for frame in frames():
            self._read += 1
            if isinstance(frame, DataFrame):
                self._protocol.receive_data(bytes(frame.data))
            if isinstance(frame, RstStreamFrame) or "END_STREAM" in frame.flags:
                self._protocol.receive_eof()
        if self._connection.ended:
            self._protocol.receive_eof()
        events = self._protocol.events_received()
        self._messages += [bytes(x.data).decode() for x in events if x.opcode is Opcode.TEXT]
        self._flush()

    def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            self._connection.send(DataFrame(1, data).serialize())
