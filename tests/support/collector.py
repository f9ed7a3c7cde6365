"""A collector of spans: takes OTLP over HTTP and reads what of its protobuf the tests look at.

Field numbers are those of opentelemetry/proto/trace/v1/trace.proto and of the messages it names.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Span:
    """One span and the service it is of."""

    service: str
    name: str
    trace: str
    identifier: str
    parent: str


@dataclass
class Collector:
    """What has arrived so far."""

    port: int
    paths: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)


def fields(message: bytes) -> dict[int, list[bytes | int]]:
    """The fields of a protobuf message by number; those of fixed size as bytes."""
    found: dict[int, list[bytes | int]] = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value: bytes | int = varint()
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(kind) or varint()
            value = message[place : place + size]
            place += size
        found.setdefault(number, []).append(value)
    return found


def text(message: bytes) -> str:
    """The text of an AnyValue."""
    (value,) = fields(message)[1]
    return value.decode()


def read(request: bytes) -> Iterator[Span]:
    """The spans of an ExportTraceServiceRequest."""
    for group in map(fields, fields(request).get(1, [])):
        (resource,) = group[1]
        attributes = [fields(each) for each in fields(resource)[1]]
        service = next(text(each[2][0]) for each in attributes if each[1] == [b"service.name"])
        for scope in map(fields, group[2]):
            for span in map(fields, scope[2]):
                (trace,), (identifier,), (name,) = span[1], span[2], span[5]
                parent = span.get(4, [b""])[0]
                yield Span(service, name.decode(), trace.hex(), identifier.hex(), parent.hex())


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector that listens."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            # Envoy sends chunks: a line with the size in front of each, one of no bytes at the end.
            assert self.headers["transfer-encoding"] == "chunked", self.headers
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            running.spans += read(body)
            running.paths.append(self.path)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running = Collector(server.server_port)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
