"""HTTP/2 (RFC 9113): a client of just what tests of connections need, with or without TLS, and frames by hand.

Frames and fields by hand have any content (RFC 7541), and no TLS.
"""

import itertools
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from stack import PATIENCE
from stack.http import Reply
from support.raw import connect

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1

# RFC 7541, appendix A: the statuses that have an index of their own.
STATUSES = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}


class H2cClient:
    """One connection, one request at a time. Replies show `connection: close` after a GOAWAY."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        address = urlsplit(url)
        self._authority = address.netloc.encode()
        # RFC 7541, appendix A: `:scheme: https` and `:scheme: http`.
        self._scheme = b"\x87" if tls else b"\x86"
        self._socket = socket.create_connection((address.hostname, address.port), timeout=PATIENCE)
        if tls:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address.hostname)
        self._received = self._socket.makefile("rb")
        self._stream = -1
        self._leaving = False
        self._socket.sendall(PREFACE)
        self._send(SETTINGS, 0, 0, b"")

    def ask(self, path: str) -> Reply:
        """Sends one GET and reads its whole reply, of which the headers stay unread."""
        self._stream += 2
        self._send(HEADERS, END_STREAM | END_HEADERS, self._stream, self._head(path.encode()))
        status, body, ended = 0, b"", False
        while not ended:
            kind, flags, stream, payload = self._receive()
            self._serve(kind, flags, payload)
            if stream != self._stream:
                continue
            if kind == RST_STREAM:
                raise ConnectionResetError(f"stream {stream} was reset: {payload.hex()}")
            if kind == HEADERS:
                # A table size update, 001xxxxx, may stand before the status.
                status = next(STATUSES.get(byte, 0) for byte in payload if byte >> 5 != 1)
            if kind == DATA:
                body += payload
            ended = kind in (HEADERS, DATA) and flags & END_STREAM
        return Reply(status, {"connection": "close"} if self._leaving else {}, body)

    def close(self) -> None:
        """Closes the connection."""
        self._received.close()
        self._socket.close()

    def _head(self, path: bytes) -> bytes:
        # GET and scheme by index, path and authority as plain text (RFC 7541, section 6.2.2).
        texts = ((0x04, path), (0x01, self._authority))
        return (
            b"\x82"
            + self._scheme
            + b"".join(bytes([name, len(text)]) + text for name, text in texts)
        )

    def _serve(self, kind: int, flags: int, payload: bytes) -> None:
        """Does what a connection needs whoever the frame is for."""
        if kind == GOAWAY:
            self._leaving = True
        elif kind in (SETTINGS, PING) and not flags & ACK:
            self._send(kind, ACK, 0, payload if kind == PING else b"")
        elif kind == DATA and payload:
            self._send(WINDOW_UPDATE, 0, 0, len(payload).to_bytes(4, "big"))

    def _send(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
        self._socket.sendall(head + payload)

    def _receive(self) -> tuple[int, int, int, bytes]:
        head = self._exactly(9)
        payload = self._exactly(int.from_bytes(head[:3], "big"))
        return head[3], head[4], int.from_bytes(head[5:], "big"), payload

    def _exactly(self, size: int) -> bytes:
        data = self._received.read(size)
        if len(data) < size:
            raise ConnectionResetError("the connection ended within a reply")
        return data


PRIORITY, PUSH_PROMISE, CONTINUATION = 2, 5, 9

Fields = Iterable[tuple[bytes, bytes]]


def get(path: bytes = b"/first", *more: tuple[bytes, bytes], method: bytes = b"GET") -> list:
    """The fields of a request."""
    pseudo = [(b":method", method), (b":scheme", b"http"), (b":path", path)]
    return [*pseudo, (b":authority", b"gateway"), *more]


def pack(fields: Fields) -> bytes:
    """Fields as literals that no table keeps (RFC 7541 section 6.2.2), without Huffman's code."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def _text(text: bytes) -> bytes:
    return integer(len(text), 7) + text


def integer(number: int, bits: int, first: int = 0) -> bytes:
    """A number behind the bits `first` of its first byte (RFC 7541 section 5.1)."""
    full = (1 << bits) - 1
    if number < full:
        return bytes([first | number])
    number -= full
    tail = []
    while number >= 128:
        tail.append(number % 128 | 128)
        number //= 128
    return bytes([first | full, *tail, number])


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """One frame."""
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def request(stream: int, fields: Fields, *data: bytes) -> bytes:
    """HEADERS, and DATA for each of `data`; the last frame ends the stream."""
    flags = END_HEADERS | (0 if data else END_STREAM)
    frames = [frame(HEADERS, flags, stream, pack(fields))]
    for index, each in enumerate(data, 1):
        frames.append(frame(DATA, END_STREAM if index == len(data) else 0, stream, each))
    return b"".join(frames)


def reset(stream: int, code: int = 8) -> bytes:
    """RST_STREAM, by default with CANCEL."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def status(block: bytes) -> int:
    """The status of a reply, which is its first field."""
    block = block.lstrip(bytes(range(0x20, 0x40)))
    if block[0] in STATUSES:
        return STATUSES[block[0]]
    size = block[1]
    if size < 128:
        return int(block[2 : 2 + size])
    bits = "".join(f"{byte:08b}" for byte in block[2 : 2 + size - 128])
    digits = ""
    while len(digits) < 3:
        # RFC 7541 appendix B: 0 to 2 have five bits, 3 to 9 have six from 011001 on.
        short = int(bits[:5], 2)
        digits += str(short if short < 3 else int(bits[:6], 2) - 22)
        bits = bits[5 if short < 3 else 6 :]
    return int(digits)


@dataclass(frozen=True)
class Frame:
    """A frame that was received."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class Connection:
    """A connection with its preface sent. Frames are kept as they come."""

    def __init__(self, url: str, settings: bytes = b"", receive_bytes: int | None = None) -> None:
        self.socket = connect(url, receive_bytes)
        self.frames: list[Frame] = []
        self.ended = False
        self._unread = b""
        self._pings = itertools.count(1)
        self.send(PREFACE + frame(SETTINGS, payload=settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends bytes, as many as the other side takes before it ends the connection."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.ended = True

    def until(self, seen: Callable[[], object]) -> None:
        """Reads frames until something was seen or the connection has ended."""
        while not self.ended and not seen():
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            self.ended = not data
            self._unread += data
            while len(self._unread) >= 9 + (size := int.from_bytes(self._unread[:3], "big")):
                head, payload = self._unread[:9], self._unread[9 : 9 + size]
                self._unread = self._unread[9 + size :]
                stream = int.from_bytes(head[5:9], "big")
                self.frames.append(Frame(head[3], head[4], stream, payload))
                if head[3] == SETTINGS and not head[4] & ACK:
                    self.send(frame(SETTINGS, ACK))

    def settle(self) -> None:
        """Waits until the other side has read everything that was sent, or ended the connection."""
        mark = next(self._pings).to_bytes(8, "big")
        self.send(frame(PING, payload=mark))
        self.until(lambda: any(x.kind == PING and x.payload == mark for x in self.frames))

    def of(self, *kinds: int, stream: int | None = None) -> list[Frame]:
        """The frames received of some kinds, of one stream if it is given."""
        return [x for x in self.frames if x.kind in kinds and stream in (None, x.stream)]

    def outcome(self, stream: int = 1) -> int | str:
        """How a request ended: its status, `reset`, or `ended` with the connection."""

        def over() -> bool:
            if self.of(RST_STREAM, stream=stream):
                return True
            return any(x.flags & END_STREAM for x in self.of(HEADERS, DATA, stream=stream))

        self.until(over)
        for each in self.of(HEADERS, RST_STREAM, stream=stream):
            return status(each.payload) if each.kind == HEADERS else "reset"
        return "ended"
