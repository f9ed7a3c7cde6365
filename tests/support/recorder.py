"""A back end that keeps every byte it is sent, and answers each request plainly."""

import re
import selectors
import socket
import threading
from dataclasses import dataclass, field

from support.ports import free_ports

REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nrecorded"
CHUNK = re.compile(rb"([0-9a-f]{1,8})\r\n")


class Unclear(Exception):
    """What was sent is not one well-formed request after the other."""


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire."""

    line: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes
    data: bytes

    def values(self, name: bytes) -> list[bytes]:
        """What the fields of this name say, in lower case."""
        return [value for key, value in self.fields if key == name]


@dataclass
class _Peer:
    connection: socket.socket
    is_probe: bool
    unread: bytes = b""


@dataclass
class Record:
    """What has come since the last look."""

    data: bytes = b""
    requests: list[Request] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


class Recorder:
    """Listens on two ports: one records, the other is for health checks and does not.

    One thread does all. In each round it first reads whatever has come on any connection, then it
    answers: when the reply to a request is out, everything sent before that request is recorded.
    """

    def __init__(self) -> None:
        first = free_ports(2)
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
        """What has come since the last call."""
        with self._lock:
            taken, self._record = self._record, Record()
            return taken

    def close(self) -> None:
        """Ends the thread and closes every connection."""
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
            self._peers[connection] = _Peer(connection, is_probe)
            self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, peer: _Peer) -> None:
        while True:
            try:
                data = peer.connection.recv(65536)
            except BlockingIOError:
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
            while found := parse(peer.unread):
                request, peer.unread = found
                if not peer.is_probe:
                    with self._lock:
                        self._record.requests.append(request)
                peer.connection.sendall(REPLY)
        except Unclear as error:
            with self._lock:
                self._record.unclear.append(f"{error}: {peer.unread!r}")
            self._drop(peer)
        except OSError:
            self._drop(peer)


def parse(data: bytes) -> tuple[Request, bytes] | None:
    """The first request and what follows it; nothing while it is not whole.

    Stricter than RFC 9112 asks of a server: whatever two readers could understand in two ways
    is `Unclear`.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    line, *lines = head.split(b"\r\n")
    if not re.fullmatch(rb"[A-Za-z]+ /[!-~]* HTTP/1\.1", line):
        raise Unclear("request line")
    fields = []
    for each in lines:
        # Names are tokens in lower case, as Envoy writes them; values have no control characters.
        match = re.fullmatch(rb"([!#$%&'*+.^`|~0-9a-z-]+): ([\t -~\x80-\xff]*)", each)
        if not match:
            raise Unclear(f"field {each!r}")
        fields.append((match[1], match[2].lower()))
    request = Request(line, tuple(fields), b"", b"")
    if len(request.values(b"host")) != 1:
        raise Unclear("not one Host")
    for name in (b"connection", b"keep-alive", b"proxy-connection", b"upgrade"):
        if request.values(name):
            raise Unclear(f"a field for one connection only, {name!r}")
    lengths, codings = request.values(b"content-length"), request.values(b"transfer-encoding")
    if codings:
        if lengths or codings != [b"chunked"]:
            raise Unclear("two lengths")
        unchunked = _chunks(rest)
    else:
        if len(lengths) > 1 or not all(each.isdigit() for each in lengths):
            raise Unclear("length")
        size = int(lengths[0]) if lengths else 0
        unchunked = (rest[:size], rest[size:]) if len(rest) >= size else None
    if unchunked is None:
        return None
    body, rest = unchunked
    return Request(line, tuple(fields), body, data[: len(data) - len(rest)]), rest


def _chunks(data: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while match := CHUNK.match(data):
        size = int(match[1], 16)
        end = match.end() + size
        if len(data) < end + 2:
            return None
        if data[end : end + 2] != b"\r\n":
            raise Unclear("end of a chunk")
        body, data = body + data[match.end() : end], data[end + 2 :]
        if not size:
            return body, data
    # Twelve bytes would be a whole line of a chunk.
    if len(data) > 12:
        raise Unclear("size of a chunk")
    return None
