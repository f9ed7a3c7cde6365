"""Clients of WebSockets (RFC 6455), over HTTP/1.1 and over HTTP/2 (RFC 8441)."""

import struct
from typing import Self

from support import h2
from support.h2 import DATA, HEADERS, RST_STREAM, SETTINGS, Connection, frame
from support.raw import connect


class WebSocket:
    """A WebSocket (RFC 6455) over HTTP/1.1, with short messages only."""

    def __init__(self, url: str, path: str = "/echo", protocol: bytes = b"websocket") -> None:
        self.socket = connect(url)
        self.socket.sendall(
            b"GET %s HTTP/1.1\r\nhost: gateway\r\nconnection: upgrade\r\nupgrade: %s\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            % (path.encode(), protocol)
        )
        self.unread = b""
        head = self.until(b"\r\n\r\n")
        self.status = int(head.split()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, text: bytes) -> None:
        """Sends a message of text."""
        self.write(message(text))

    def receive(self) -> bytes:
        """The next message, or the close code as bytes; nothing at the end of the connection."""
        if not (head := self.exactly(2)):
            return b""
        return self.exactly(head[1])

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        self.socket.sendall(data)

    def read(self) -> bytes:
        """Some bytes; none at the end."""
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""

    def until(self, end: bytes) -> bytes:
        """What comes up to `end`."""
        while end not in self.unread:
            data = self.read()
            assert data, "the connection ended"
            self.unread += data
        found, _, self.unread = self.unread.partition(end)
        return found

    def exactly(self, size: int) -> bytes:
        """So many bytes, or nothing if the connection ends before."""
        while len(self.unread) < size:
            if not (data := self.read()):
                return b""
            self.unread += data
        found, self.unread = self.unread[:size], self.unread[size:]
        return found


class WebSocketOverHttp2(WebSocket):
    """The same over a stream of HTTP/2 (RFC 8441)."""

    def __init__(self, url: str, path: str = "/echo", protocol: bytes = b"websocket") -> None:
        self.connection = Connection(url)
        self.connection.until(lambda: self.connection.of(SETTINGS))
        fields = [(b":method", b"CONNECT"), (b":protocol", protocol), (b":scheme", b"http")]
        fields += [(b":path", path.encode()), (b":authority", b"gateway")]
        fields += [(b"sec-websocket-version", b"13")]
        self.connection.send(frame(HEADERS, h2.END_HEADERS, 1, h2.pack(fields)))
        self.unread, self.seen = b"", 0
        self.connection.until(lambda: self.connection.of(HEADERS, RST_STREAM))
        (head, *_) = self.connection.of(HEADERS)
        self.status = h2.status(head.payload)

    def __exit__(self, *_: object) -> None:
        self.connection.socket.close()

    def write(self, data: bytes) -> None:
        self.connection.send(frame(DATA, 0, 1, data))

    def read(self) -> bytes:
        def frames() -> list[h2.Frame]:
            return self.connection.of(DATA, RST_STREAM)[self.seen :]

        self.connection.until(frames)
        found = frames()
        self.seen += len(found)
        return b"".join(x.payload for x in found if x.kind == DATA)


def message(text: bytes) -> bytes:
    """A frame of text, masked with zeros."""
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text


AWAY = struct.pack("!H", 1001)
"""The code with which a replica that drains closes."""
CLOSE = b"\x88\x82" + bytes(4) + AWAY
"""A close frame with it, masked with zeros."""
