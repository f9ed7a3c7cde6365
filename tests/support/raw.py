"""Raw HTTP/1.1: sends any bytes and reads all responses."""

import errno
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from stack import PATIENCE
from stack.http import Reply

PIECE = 1024 * 1024
"""Sent in pieces, because PATIENCE applies to each one."""


def connect(url: str, receive_bytes: int | None = None) -> socket.socket:
    """Connects, optionally with a limited receive buffer."""
    address = urlsplit(url)
    connection = socket.socket()
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    # Each write is sent immediately.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(PATIENCE)
    connection.connect((address.hostname, address.port))
    return connection


def read_until(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        data = connection.recv(65536)
        assert data, f"the connection ended: {received[-200:]!r}"
        received += data
    return received


def exchange(url: str, data: bytes) -> list[Reply]:
    """Sends data on a new connection, and reads replies until the other side closes."""
    with connect(url) as connection:
        try:
            for start in range(0, len(data), PIECE):
                connection.sendall(data[start : start + PIECE])
        except (BrokenPipeError, ConnectionResetError):
            # The server rejected the data early; its response may still be readable.
            pass
        return replies(until_end(connection))


def until_end(connection: socket.socket) -> bytes:
    """Until closed or reset."""
    received = bytearray()
    try:
        while data := connection.recv(65536):
            received += data
            # Envoy's own responses are shorter.
            if len(received) < 65536 and _closes(bytes(received)):
                # Envoy stops reading and gives the client one second to close.
                connection.shutdown(socket.SHUT_WR)
    except OSError as error:
        # ENOTCONN: already reset.
        if error.errno not in (errno.ECONNRESET, errno.ENOTCONN):
            raise
    return bytes(received)


def _closes(received: bytes) -> bool:
    """Complete, with `connection: close`."""
    head, end, body = received[received.rfind(b"HTTP/1.") :].partition(b"\r\n\r\n")
    size = re.search(rb"\r\ncontent-length: (\d+)", head)
    last = end and b"\r\nconnection: close" in head
    return bool(last and size and len(body) >= int(size[1]))


def replies(data: bytes) -> list[Reply]:
    """All responses in these tests have a length."""
    found = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        status = re.fullmatch(r"HTTP/1\.[01] (\d{3}) .*", line)
        assert status and end, f"not a reply: {head!r}"
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        if int(status[1]) < 200:
            found.append(Reply(int(status[1]), headers, b""))
            continue
        size = int(headers.get("content-length", 0))
        assert len(data) >= size, "the connection ended within a reply"
        found.append(Reply(int(status[1]), headers, data[:size]))
        data = data[size:]
    return found


UPGRADE = (
    b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@contextmanager
def upgrading(address: str = "127.0.0.1") -> Iterator[int]:
    """A replica that accepts one WebSocket and echoes."""
    head = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"

    def echo() -> None:
        peer, _ = listener.accept()
        with peer:
            assert b"websocket" in read_until(peer, b"\r\n\r\n")
            peer.sendall(head)
            while data := peer.recv(65536):
                peer.sendall(data)

    with socket.create_server((address, 0)) as listener:
        threading.Thread(target=echo, daemon=True).start()
        yield listener.getsockname()[1]
