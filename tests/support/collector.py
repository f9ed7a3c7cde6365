"""An OTLP/HTTP collector that stores the data for assertions."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from stack.http_server import Request, serving

Value = str | bool | int


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    trace: str
    identifier: str
    parent: str
    kind: int
    state: str
    failed: bool
    begun: int
    """In nanoseconds since 1970, like all times here."""
    ended: int
    attributes: dict[str, Value]
    resource: dict[str, Value]
    events: dict[str, int]


@dataclass(frozen=True)
class Point:
    name: str
    unit: str
    description: str
    kind: str
    """gauge, counter, info (non-monotonic sum) or histogram."""
    cumulative: bool
    attributes: dict[str, Value]
    resource: dict[str, Value]
    begun: int
    at: int
    value: float
    buckets: dict[float, int]
    """Count per upper bound."""
    count: int


@dataclass
class Collector:
    endpoint: str = ""
    statuses: list[int] = field(default_factory=list)
    """Status codes for the next requests, whose data is dropped; then 200."""
    paths: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    metrics: list[list[Point]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.endpoint.rpartition(":")[2])


def attributes(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in pairs}


def read(request: bytes) -> Iterator[Span]:
    for group in ExportTraceServiceRequest.FromString(request).resource_spans:
        resource = attributes(group.resource.attributes)
        for span in (span for scope in group.scope_spans for span in scope.spans):
            yield Span(
                service=str(resource["service.name"]),
                name=span.name,
                trace=span.trace_id.hex(),
                identifier=span.span_id.hex(),
                parent=span.parent_span_id.hex(),
                kind=span.kind,
                state=span.trace_state,
                failed=span.status.code == Status.STATUS_CODE_ERROR,
                begun=span.start_time_unix_nano,
                ended=span.end_time_unix_nano,
                attributes=attributes(span.attributes),
                resource=resource,
                events={each.name: each.time_unix_nano for each in span.events},
            )


def read_metrics(request: bytes) -> Iterator[Point]:
    for group in ExportMetricsServiceRequest.FromString(request).resource_metrics:
        resource = attributes(group.resource.attributes)
        for metric in (metric for scope in group.scope_metrics for metric in scope.metrics):
            for point in getattr(metric, metric.WhichOneof("data")).data_points:
                yield _point(metric, point, resource)


def _point(
    metric: Metric, point: NumberDataPoint | HistogramDataPoint, resource: dict[str, Value]
) -> Point:
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    buckets, count = {}, 0
    if kind == "histogram":
        bounds = [*point.explicit_bounds, float("inf")]
        buckets, count = dict(zip(bounds, point.bucket_counts, strict=True)), point.count
    if kind == "sum":
        kind = "counter" if data.is_monotonic else "info"
    return Point(
        name=metric.name,
        unit=metric.unit,
        description=metric.description,
        kind=kind,
        cumulative=kind != "gauge"
        and data.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE,
        attributes=attributes(point.attributes),
        resource=resource,
        begun=point.start_time_unix_nano,
        at=point.time_unix_nano,
        value=point.sum if buckets else getattr(point, point.WhichOneof("value")),
        buckets=buckets,
        count=count,
    )


@contextmanager
def collector() -> Iterator[Collector]:
    running = Collector()

    def answer(request: Request) -> None:
        body = request.body()
        status = running.statuses.pop(0) if running.statuses else 200
        # Stored first, so that a test that sees the data also sees its path.
        running.paths.append(request.path)
        if status == 200 and request.path.endswith("/v1/metrics"):
            running.metrics.append(list(read_metrics(body)))
        elif status == 200:
            running.spans += read(body)
        request.reply(status)

    with serving(answer) as running.endpoint:
        yield running
