"""A collector of spans and metrics: takes OTLP over HTTP and reads what of its protobuf the tests look at.

Field numbers are those of opentelemetry/proto/trace/v1/trace.proto, opentelemetry/proto/metrics/v1/metrics.proto
and of the messages they name.
"""

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Value = str | bool | int


@dataclass(frozen=True)
class Span:
    """One span and the service it is of."""

    service: str
    name: str
    trace: str
    identifier: str
    parent: str
    kind: int
    state: str
    failed: bool
    begun: int
    """In nanoseconds since 1970, as all times here."""
    ended: int
    attributes: dict[str, Value]
    resource: dict[str, Value]
    events: dict[str, int]
    """Times by the name of the event."""


@dataclass(frozen=True)
class Point:
    """One point of a metric, and the service it is of."""

    name: str
    unit: str
    description: str
    kind: str
    """gauge, counter, info (a sum that is not monotonic) or histogram."""
    cumulative: bool
    attributes: dict[str, Value]
    resource: dict[str, Value]
    begun: int
    at: int
    value: float
    """Of a histogram, its sum."""
    buckets: dict[float, int]
    """Observations of each bucket of a histogram by its upper bound."""
    count: int


@dataclass
class Collector:
    """What has arrived so far."""

    port: int
    statuses: list[int] = field(default_factory=list)
    """What the next requests are answered, without their spans; 200 when there is none left."""
    paths: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    metrics: list[list[Point]] = field(default_factory=list)
    """The points of each request."""

    @property
    def endpoint(self) -> str:
        """Its address as `otlp.endpoint` names it."""
        return f"http://127.0.0.1:{self.port}"


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


def first(message: dict[int, list[bytes | int]], number: int) -> bytes:
    """A field that may be left out where it is empty."""
    return message.get(number, [b""])[0]


def moment(message: dict[int, list[bytes | int]], number: int) -> int:
    """A time."""
    return int.from_bytes(first(message, number), "little")


def value(message: bytes) -> Value:
    """An AnyValue: a string, a boolean or an integer; any other is empty."""
    parts = fields(message)
    if 2 in parts:
        return bool(parts[2][0])
    return parts[3][0] if 3 in parts else first(parts, 1).decode()


def attributes(messages: list[bytes | int]) -> dict[str, Value]:
    """Attributes by their key."""
    pairs = [fields(each) for each in messages]
    return {first(pair, 1).decode(): value(first(pair, 2)) for pair in pairs}


def read(request: bytes) -> Iterator[Span]:
    """The spans of an ExportTraceServiceRequest."""
    for group in map(fields, fields(request).get(1, [])):
        resource = attributes(fields(group[1][0])[1])
        for scope in map(fields, group[2]):
            for span in map(fields, scope[2]):
                events = [fields(each) for each in span.get(11, [])]
                yield Span(
                    service=str(resource["service.name"]),
                    name=first(span, 5).decode(),
                    trace=first(span, 1).hex(),
                    identifier=first(span, 2).hex(),
                    parent=first(span, 4).hex(),
                    kind=span.get(6, [0])[0],
                    state=first(span, 3).decode(),
                    failed=fields(first(span, 15)).get(3) == [2],
                    begun=moment(span, 7),
                    ended=moment(span, 8),
                    attributes=attributes(span.get(9, [])),
                    resource=resource,
                    events={first(each, 2).decode(): moment(each, 1) for each in events},
                )


def read_metrics(request: bytes) -> Iterator[Point]:
    """The points of an ExportMetricsServiceRequest."""
    kinds = {5: "gauge", 7: "sum", 9: "histogram"}
    for group in map(fields, fields(request).get(1, [])):
        resource = attributes(fields(group[1][0])[1])
        for metric in (fields(each) for scope in group[2] for each in fields(scope)[2]):
            number = next(number for number in kinds if number in metric)
            data = fields(metric[number][0])
            kind = kinds[number]
            if kind == "sum":
                kind = "counter" if data.get(3) == [1] else "info"
            for point in map(fields, data[1]):
                yield _point(metric, kind, data.get(2) == [2], point, resource)


def _point(
    metric: dict[int, list[bytes | int]],
    kind: str,
    cumulative: bool,
    point: dict[int, list[bytes | int]],
    resource: dict[str, Value],
) -> Point:
    histogram = kind == "histogram"
    counts = [n for (n,) in struct.iter_unpack("<Q", first(point, 6))] if histogram else []
    bounds = [x for (x,) in struct.iter_unpack("<d", first(point, 7))] if histogram else []
    number, form = (6, "<q") if 6 in point and not histogram else (5 if histogram else 4, "<d")
    (value,) = struct.unpack(form, first(point, number))
    return Point(
        name=first(metric, 1).decode(),
        unit=first(metric, 3).decode(),
        description=first(metric, 2).decode(),
        kind=kind,
        cumulative=cumulative,
        attributes=attributes(point.get(9 if histogram else 7, [])),
        resource=resource,
        begun=moment(point, 2),
        at=moment(point, 3),
        value=value,
        buckets=dict(zip([*bounds, float("inf")], counts, strict=True)) if histogram else {},
        count=moment(point, 4) if histogram else 0,
    )


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector that listens."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def body(self) -> bytes:
            """The body: Envoy sends chunks, a line with the size in front of each, the last empty."""
            if self.headers["transfer-encoding"] != "chunked":
                return self.rfile.read(int(self.headers["content-length"]))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def do_POST(self) -> None:
            body = self.body()
            status = running.statuses.pop(0) if running.statuses else 200
            # First, so that whoever sees a span or a metric sees the path of its request, too.
            running.paths.append(self.path)
            if status == 200 and self.path.endswith("/v1/metrics"):
                running.metrics.append(list(read_metrics(body)))
            elif status == 200:
                running.spans += read(body)
            self.send_response(status)
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
