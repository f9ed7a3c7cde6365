"""Spans of requests: what a collector gets, and that serving never waits for one."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import eventually
from support.client import Client, ask
from support.collector import Collector, Span, collector
from support.envoys import endpoint, gateway_to
from support.servers import Server

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER_KIND = 2


def parent(sampled: bool) -> dict[str, str]:
    """The header fields of a request within a trace."""
    return {"traceparent": f"00-{TRACE}-{CALLER}-0{int(sampled)}", "tracestate": "congo=t61"}


@pytest.fixture
def spans() -> Iterator[Collector]:
    """A collector."""
    with collector() as running:
        yield running


def traced(start: Callable[..., Server], endpoint: str, *flags: str) -> Server:
    """A server that sends spans, and ends at once."""
    return start("--otlp.endpoint", endpoint, "--drain.settle", "0s", *flags)


def end(server: Server) -> None:
    """Ends a server, which sends what is left."""
    server.process.send_signal(signal.SIGTERM)
    assert server.end()[0] == 0


def dropped(server: Server, reason: str) -> float:
    """Spans that were not sent."""
    return server.metrics()[f'corelane_spans_dropped_total{{reason="{reason}"}}']


def test_a_request_is_a_span_of_its_trace(start: Callable[..., Server], spans: Collector) -> None:
    server = traced(start, spans.endpoint, "--otlp.ratio", "0")
    before = time.time_ns()
    client = Client(server.url)
    reply = client.ask("/div/4", headers={**parent(sampled=True), "x-request-id": "an-id"})
    for fields in (parent(sampled=False), {}, {"traceparent": "00-1-2-3"}):
        assert client.ask("/hello", headers=fields).status == 200
    assert client.ask("/hello", "TRACE", headers=parent(sampled=True)).status == 501
    client.close()
    eventually(lambda: len(spans.spans) >= 2, "two spans")
    eventually(lambda: server.metrics()["corelane_spans_exported_total"] == 2, "counted")
    end(server)
    span, failed = spans.spans
    assert (span.name, span.kind, span.failed) == ("GET /div/{n}", SERVER_KIND, False)
    assert (span.trace, span.parent, span.state) == (TRACE, CALLER, "congo=t61")
    assert span.identifier not in {CALLER, failed.identifier}
    host, port = server.url.removeprefix("http://").split(":")
    assert span.attributes == {
        "http.request.method": "GET",
        "http.response.body.size": 1,
        "http.response.status_code": 200,
        "http.route": "/div/{n}",
        "network.protocol.version": "1.1",
        "server.address": host,
        "server.port": int(port),
        "url.scheme": "http",
        "corelane.complete": True,
        "corelane.lane": int(reply.headers["corelane-lane"]),
        "corelane.request_id": "an-id",
    }
    assert span.resource["service.name"] == "corelane-server"
    assert span.resource["service.instance.id"] == "test"
    assert span.resource["service.version"]
    started, made = span.events["handler started"], span.events["reply made"]
    assert before <= span.begun <= started <= made <= span.ended <= time.time_ns()
    assert (failed.failed, failed.attributes["error.type"]) == (True, "501")


def test_a_trace_begins_here_and_what_is_left_is_sent_at_the_end(
    start: Callable[..., Server], spans: Collector
) -> None:
    server = traced(start, f"{spans.endpoint}/base", "--otlp.ratio", "1")
    client = Client(server.url)
    assert {client.ask("/hello").status for _ in range(30)} == {200}
    client.close()
    end(server)
    assert len(spans.spans) == len({span.trace for span in spans.spans}) == 30
    assert {span.parent for span in spans.spans} == {""}
    assert set(spans.paths) == {"/base/v1/traces"}


def test_a_collector_that_has_no_time_is_asked_again_and_one_that_refuses_is_not(
    start: Callable[..., Server], spans: Collector
) -> None:
    spans.statuses = [503, 400]
    server = traced(start, spans.endpoint, "--otlp.ratio", "1")
    assert ask(server.url, "/hello").status == 200
    eventually(lambda: dropped(server, "refused") == 1, "refused")
    assert len(spans.paths) == 2
    assert ask(server.url, "/hello").status == 200
    eventually(lambda: len(spans.spans) == 1, "one span")
    end(server)


@contextmanager
def silent() -> Iterator[str]:
    """A collector that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_collector_that_does_not_answer_harms_nobody(start: Callable[..., Server]) -> None:
    with silent() as address:
        flags = ("--otlp.ratio", "1", "--otlp.timeout", "1h", "--lanes", "1")
        server = traced(start, address, *flags)
        client = Client(server.url)
        # More than the queue of the lane and the request on its way hold.
        assert {client.ask("/hello").status for _ in range(3000)} == {200}
        client.close()
        eventually(lambda: dropped(server, "queue_full") > 0, "dropped spans")
        # Nor does its end wait for the collector as long as a request to it may take.
        end(server)


def test_an_endpoint_that_is_none_ends_the_start(binary: Path) -> None:
    argv = [binary, "--check", "--otlp.endpoint", "https://collector"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (result.returncode, "begins with http://" in result.stderr) == (64, True)


def test_through_the_gateway_the_replicas_span_is_a_child_of_its_attempt(
    start: Callable[..., Server], spans: Collector, tmp_path: Path
) -> None:
    server = traced(start, spans.endpoint, "--otlp.ratio", "0")
    tracing = {"enabled": True, "protocol": "http", "host": "127.0.0.1", "port": spans.port}
    values = {"tracing": {**tracing, "percent": 100, "attempts": True}}
    with gateway_to([endpoint(server.url, server.admin)], tmp_path, values=values) as gateway:
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 1)
        reply = ask(gateway.url, "/hello")
        entry = gateway.logged("/hello")
        eventually(lambda: len(spans.spans) == 3, "three spans")

    def of(service: str) -> list[Span]:
        return [span for span in spans.spans if span.service == service]

    (whole,) = (span for span in of("corelane-gateway") if not span.parent)
    (attempt,) = (span for span in of("corelane-gateway") if span.parent)
    (handled,) = of("corelane-server")
    assert {span.trace for span in spans.spans} == {entry["trace_id"]}
    assert (attempt.parent, handled.parent) == (whole.identifier, attempt.identifier)
    assert reply.headers["x-request-id"] == entry["request_id"]
    assert handled.attributes["corelane.request_id"] == entry["request_id"]
