"""An HTTP/2 client of just what tests of connections need (RFC 9113); without TLS, or with it."""

import socket
import ssl
from urllib.parse import urlsplit

from support import PATIENCE
from support.client import Reply

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
