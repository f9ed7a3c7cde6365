"""A back end that records every byte and answers each request."""

import re
import selectors
import socket
import ssl
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from stack.ports import free_ports

REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nrecorded"
CHUNK = re.compile(rb"([0-9a-f]{1,8})\r\n")
FOR_ONE_CONNECTION = {b"connection", b"keep-alive", b"proxy-connection", b"upgrade"}


class Unclear(Exception):
    """The data are not a sequence of well-formed requests."""


@dataclass(frozen=True)
class Request:
    line: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes
    data: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.fields if key == name]


@dataclass
class _Peer:
    connection: socket.socket
    is_probe: bool
    unread: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.requests = parsed(self.unread)


@dataclass
class Record:
    """Everything received since the previous record."""

    data: bytearray = field(default_factory=bytearray)
    requests: list[Request] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


class Recorder:
    """Two ports: one records requests, and the other serves health checks.

    A single thread reads all available data before it responds, so everything sent before a
    response is recorded. With `tls`, the port for requests accepts only TLS.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        first, self._tls = free_ports(2), tls
        self.url, self.admin = (f"http://127.0.0.1:{first + index}" for index in range(2))
        self._selector = selectors.DefaultSelector()
        self._listeners = []
        for index in range(2):
            listener = socket.create_server(("127.0.0.1", first + index), backlog=1024)
            listener.setblocking(False)
            self._listeners.append(listener)
            self._selector.register(listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._peers: dict[socket.socket, _Peer] = {}
        self._lock = threading.Lock()
        self._record = Record()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self) -> Record:
        with self._lock:
            taken, self._record = self._record, Record()
            return taken

    def close(self) -> None:
        self._wake.send(b"x")
        self._thread.join()
        for each in [*self._listeners, *self._peers, self._wake, self._woken]:
            each.close()
        self._selector.close()

    def _run(self) -> None:
        while self._woken not in {key.fileobj for key, _ in self._selector.select()}:
            for index, listener in enumerate(self._listeners):
                self._accept(listener, is_probe=index == 1)
            with self._lock:
                for peer in list(self._peers.values()):
                    self._read(peer)
            for peer in list(self._peers.values()):
                self._answer(peer)

    def _accept(self, listener: socket.socket, *, is_probe: bool) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            if self._tls and not is_probe:
                options = {"server_side": True, "do_handshake_on_connect": False}
                try:
                    connection = self._tls.wrap_socket(connection, **options)
                except OSError:
                    # The client has already reset it.
                    continue
            self._peers[connection] = _Peer(connection, is_probe)
            self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, peer: _Peer) -> None:
        while True:
            try:
                data = peer.connection.recv(65536)
            except (BlockingIOError, ssl.SSLWantReadError):
                return
            except OSError:
                data = b""
            if not data:
                self._drop(peer)
                return
            peer.unread += data
            if not peer.is_probe:
                self._record.data += data

    def _drop(self, peer: _Peer) -> None:
        self._selector.unregister(peer.connection)
        peer.connection.close()
        del self._peers[peer.connection]

    def _answer(self, peer: _Peer) -> None:
        try:
            while request := next(peer.requests):
                if not peer.is_probe:
                    with self._lock:
                        self._record.requests.append(request)
                peer.connection.sendall(REPLY)
        except Unclear as error:
            with self._lock:
                self._record.unclear.append(f"{error}: {bytes(peer.unread)!r}")
            self._drop(peer)
        except OSError:
            self._drop(peer)


def parsed(data: bytearray) -> Iterator[Request | None]:
    """Parses complete requests from `data`, which the caller extends.

    Resumable, so that long bodies are read once. Stricter than RFC 9112: anything ambiguous is
    `Unclear`.
    """
    while True:
        while (end := data.find(b"\r\n\r\n")) < 0:
            yield None
        line, *lines = bytes(data[:end]).split(b"\r\n")
        if not re.fullmatch(rb"[A-Za-z]+ /[!-~]* HTTP/1\.1", line):
            raise Unclear("request line")
        fields = tuple(_field(each) for each in lines)
        body, end = yield from _body(fields, data, end + 4)
        request = Request(line, fields, body, bytes(data[:end]))
        del data[:end]
        yield request


def _field(line: bytes) -> tuple[bytes, bytes]:
    # Lower-case tokens, as Envoy sends them; no control characters in values.
    match = re.fullmatch(rb"([!#$%&'*+.^`|~0-9a-z-]+): ([\t -~\x80-\xff]*)", line)
    if not match:
        raise Unclear(f"field {line!r}")
    if match[1] in FOR_ONE_CONNECTION:
        raise Unclear(f"a field for one connection only, {line!r}")
    return match[1], match[2].lower()


Body = Generator[None, None, tuple[bytes, int]]
"""Yields while the body is incomplete; returns the body and its end."""


def _body(fields: tuple[tuple[bytes, bytes], ...], data: bytearray, start: int) -> Body:
    request = Request(b"", fields, b"", b"")
    if len(request.values(b"host")) != 1:
        raise Unclear("not one Host")
    lengths, codings = request.values(b"content-length"), request.values(b"transfer-encoding")
    if codings:
        if lengths or codings != [b"chunked"]:
            raise Unclear("two lengths")
        return (yield from _chunks(data, start))
    if len(lengths) > 1 or not all(each.isdigit() for each in lengths):
        raise Unclear("length")
    end = start + (int(lengths[0]) if lengths else 0)
    while len(data) < end:
        yield
    return bytes(data[start:end]), end


def _chunks(data: bytearray, start: int) -> Body:
    parts = []
    while True:
        while not (match := CHUNK.match(data, start)):
            # Size lines have at most ten bytes.
            if len(data) - start >= 10:
                raise Unclear("size of a chunk")
            yield
        size, first = int(match[1], 16), match.end()
        start = first + size + 2
        while len(data) < start:
            yield
        if data[start - 2 : start] != b"\r\n":
            raise Unclear("end of a chunk")
        if not size:
            return b"".join(parts), start
        parts.append(bytes(data[first : start - 2]))
