"""Sends requests one at a time, each while the lane sleeps, so that every run takes the same code
path.

A server under callgrind is many times slower than its client. If a request were sent as soon as a
response arrives, the lane would sometimes be running and sometimes be asleep, which are different
code paths.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.errors import ToolError

PATIENCE = 60.0

EPOLL_WAIT, EPOLL_PWAIT = "232", "281"
"""System call numbers on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl)."""

LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class Lane:
    pid: int
    thread: int

    def settle(self) -> None:
        """Waits until the thread waits for sockets. The file contains `running` unless the thread
        sleeps (proc_pid_syscall(5)).
        """
        file = Path(f"/proc/{self.pid}/task/{self.thread}/syscall")
        deadline = time.monotonic() + PATIENCE
        while file.read_text().partition(" ")[0] not in (EPOLL_WAIT, EPOLL_PWAIT):
            if time.monotonic() > deadline:
                raise ToolError(f"the lane does not come to rest in {PATIENCE:.0f} s")


@dataclass(frozen=True)
class Reply:
    """The head includes the status line, except in HTTP/2."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])


@dataclass
class Client:
    """One connection at a time; the lane is idle whenever a method returns."""

    port: int
    lane: Lane
    tls: ssl.SSLContext | None = None
    _socket: socket.socket | None = None

    def ask(self, request: bytes, replies: int = 1) -> list[Reply]:
        raise NotImplementedError

    def close(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None
            self.lane.settle()

    def _connection(self) -> socket.socket:
        if not self._socket:
            raw = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = self.tls.wrap_socket(raw) if self.tls else raw
            self._greet(self._socket)
            self.lane.settle()
        return self._socket

    def _greet(self, connection: socket.socket) -> None:
        """Returns the data that precede the first request."""

    @staticmethod
    def _receive(connection: socket.socket) -> bytes:
        data = connection.recv(65536)
        if not data:
            raise ToolError("the server closed the connection before its reply was whole")
        return data


class Http1(Client):
    """HTTP/1.1."""

    def ask(self, request: bytes, replies: int = 1) -> list[Reply]:
        connection = self._connection()
        connection.sendall(request)
        unread, found = b"", []
        bodiless = request.startswith(b"HEAD ")
        while len(found) < replies:
            unread += self._receive(connection)
            while len(found) < replies and (cut := _cut(unread, bodiless)):
                reply, unread = cut
                found.append(reply)
        if unread:
            raise ToolError(f"more was answered than requested: {unread[:100]!r}")
        self.lane.settle()
        return found


def _cut(data: bytes, bodiless: bool) -> tuple[Reply, bytes] | None:
    """The first response and the rest, if the response is complete."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    length = LENGTH.search(head + b"\r\n")
    empty = bodiless or head.split(b" ", 2)[1] in (b"204", b"304")
    size = 0 if empty or not length else int(length[1])
    return (Reply(head, rest[:size]), rest[size:]) if len(rest) >= size else None


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
ACK = END_STREAM = 1
END_HEADERS = 4
WINDOW = 1 << 30


@dataclass
class Http2(Client):
    """HTTP/2 without TLS, one stream at a time (RFC 9113); a request is a header block (RFC 7541)."""

    _stream: int = -1
    _unread: bytes = field(default=b"", repr=False)

    def ask(self, request: bytes, _replies: int = 1) -> list[Reply]:
        connection = self._connection()
        self._stream += 2
        connection.sendall(_frame(HEADERS, END_HEADERS | END_STREAM, self._stream, request))
        head = body = b""
        ended = False
        while not ended:
            kind, flags, stream, payload = self._next(connection)
            if stream != self._stream:
                continue
            head += payload if kind == HEADERS else b""
            body += payload if kind == DATA else b""
            if kind not in (HEADERS, DATA):
                raise ToolError(f"HTTP/2: a frame of kind {kind} in place of a reply")
            ended = bool(flags & END_STREAM)
        self.lane.settle()
        # `:status: 200` is entry 8 of the static table (RFC 7541 appendix A).
        return [
            Reply(
                b"HTTP/2 200" if head.lstrip(b"\x3f\xe1\x1f")[:1] == b"\x88" else b"HTTP/2 0", body
            )
        ]

    def _greet(self, connection: socket.socket) -> None:
        self._stream, self._unread = -1, b""
        window = _frame(WINDOW_UPDATE, 0, 0, WINDOW.to_bytes(4, "big"))
        connection.sendall(PREFACE + _frame(SETTINGS, 0, 0, b"") + window)
        seen = set()
        # Both sides acknowledge the settings before the count starts.
        while seen != {0, ACK}:
            kind, flags, _stream, _payload = self._next(connection)
            if kind == SETTINGS:
                seen.add(flags)
        connection.sendall(_frame(SETTINGS, ACK, 0, b""))

    def _next(self, connection: socket.socket) -> tuple[int, int, int, bytes]:
        while len(self._unread) < 9 or len(self._unread) < 9 + self._length():
            self._unread += self._receive(connection)
        end = 9 + self._length()
        frame, self._unread = self._unread[:end], self._unread[end:]
        return frame[3], frame[4], int.from_bytes(frame[5:9], "big"), frame[9:]

    def _length(self) -> int:
        return int.from_bytes(self._unread[:3], "big")


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


Connect = Callable[[int, Lane], Client]
