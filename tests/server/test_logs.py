"""Request logs and trace spans."""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stack import eventually
from stack.gateway import endpoint, gateway_to
from stack.http import Client, Reply, ask
from stack.replica import Server
from support.collector import Collector, Span, collector
from support.raw import exchange

EVERY_REQUEST = "info,corelane::request=debug"


def requests(server: Server) -> list[dict]:
    """Stops a server and returns its request log entries."""
    server.terminate()
    code, log = server.end()
    assert code == 0, log
    lines = [json.loads(line) for line in log.splitlines()]
    return [line for line in lines if line["target"] == "corelane::request"]


def logging(start: Callable[..., Server], *flags: str) -> Server:
    """Logs JSON and shuts down immediately."""
    return start("--log.format", "json", "--drain.settle", "0s", *flags)


def put(server: Server, level: str, query: str = "") -> Reply:
    return ask(server.admin, f"/log-level{query}", "PUT", body=level.encode())


def test_a_request_is_a_line_with_its_id_and_phases(start: Callable[..., Server]) -> None:
    server = logging(start, "--log.level", EVERY_REQUEST)
    client = Client(server.url)
    secret = {"authorization": "Bearer hidden", "x-request-id": "from-the-client"}
    replies = [
        client.ask("/hello?token=hidden", headers=secret),
        client.ask("/div/hidden", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}),
        client.ask("/none/hidden"),
    ]
    client.close()
    server.terminate()
    code, log = server.end()
    assert (code, "hidden" in log) == (0, False), log
    lines = [line for line in map(json.loads, log.splitlines()) if "route" in line]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("GET", "/hello", 200),
        ("GET", "/div/{n}", 400),
        ("GET", "other", 404),
    ]
    ids = [reply.headers["x-request-id"] for reply in replies]
    assert [line["request_id"] for line in lines] == ids
    assert ids[0] == "from-the-client"
    assert [line.get("trace_id") for line in lines] == [None, "a" * 32, None]
    for line, reply in zip(lines, replies, strict=True):
        assert (line["level"], line["complete"]) == ("DEBUG", True)
        assert line["lane"] == int(reply.headers["corelane-lane"])
        assert line["body_bytes"] == len(reply.body)
        assert min(line[f"{phase}_seconds"] for phase in ("queue", "handler", "write")) >= 0
    assert ["accept_seconds" in line for line in lines] == [True, False, False]


@pytest.mark.parametrize(
    ("flags", "client"),
    [
        ([], None),
        (["--log.client", "on"], "127.0.0.1"),
        (["--log.client", "on", "--trusted-proxies", "10.0.0.0/8, 127.0.0.1"], "192.0.2.1"),
        (
            [
                "--log.client",
                "on",
                "--trusted-proxies",
                "127.0.0.1",
                "--forwarded-header",
                "forwarded",
            ],
            "192.0.2.2",
        ),
    ],
)
def test_a_line_has_the_client_where_that_was_set(
    start: Callable[..., Server], flags: list[str], client: str | None
) -> None:
    server = logging(start, "--log.level", EVERY_REQUEST, *flags)
    headers = {"x-forwarded-for": "6.6.6.6, 192.0.2.1", "forwarded": "for=192.0.2.2"}
    assert ask(server.url, "/hello", headers=headers).status == 200
    assert [line.get("client") for line in requests(server)] == [client]


def test_the_header_of_a_proxy_names_the_client(start: Callable[..., Server]) -> None:
    flags = ["--log.client", "on", "--proxy-protocol", "on", "--log.level", EVERY_REQUEST]
    server = logging(start, *flags)
    proxied = b"PROXY TCP4 192.0.2.3 198.51.100.2 5000 80\r\n"
    get = b"GET /hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    assert [reply.status for reply in exchange(server.url, proxied + get)] == [200]
    assert [line.get("client") for line in requests(server)] == ["192.0.2.3"]


def test_by_default_failures_alone_are_logged_and_not_without_measure(
    start: Callable[..., Server],
) -> None:
    server = logging(start, "--lanes", "1")
    client = Client(server.url)
    assert {client.ask("/hello").status for _ in range(3)} == {200}
    # 501 counts as a server error.
    begun = time.monotonic()
    ids = [client.ask("/hello", "TRACE").headers["x-request-id"] for _ in range(300)]
    took = time.monotonic() - begun
    client.close()
    lines = requests(server)
    assert {(line["level"], line["status"]) for line in lines} == {("WARN", 501)}
    assert lines[0]["request_id"] == ids[0]
    # 10 per second.
    assert 10 <= len(lines) <= 10 * (took + 2)
    assert "left_out" not in lines[0]


def test_the_level_changes_while_the_server_runs(start: Callable[..., Server]) -> None:
    server = logging(start)

    def shown() -> str:
        return ask(server.admin, "/log-level").body.decode()

    def named(name: str) -> dict[str, str]:
        return {"x-request-id": name}

    assert shown() == "info\n"
    # The request is logged before the next response on the same connection.
    client = Client(server.url)
    client.ask("/div/1", headers=named("before"))
    client.ask("/hello")
    assert put(server, EVERY_REQUEST).status == 200
    assert shown() == f"{EVERY_REQUEST}\n"
    client.ask("/div/2", headers=named("logged"))
    client.ask("/hello")
    client.close()
    for level, query in (("loud", ""), ("", ""), ("debug", "?for=soon")):
        refused = put(server, level, query)
        assert refused.status == 400
        assert refused.headers["content-type"] == "application/problem+json"
    assert json.loads(put(server, "loud").body)["type"] == "urn:corelane:problem:bad-log-level"
    assert ask(server.admin, "/log-level", "DELETE").headers["allow"] == "GET, HEAD, PUT"
    assert shown() == f"{EVERY_REQUEST}\n"

    assert put(server, "debug", "?for=1h").body.startswith(b"debug\nfor ")
    assert put(server, "debug", "?for=1s").status == 200
    eventually(lambda: shown() == "info\n", "the level of the start")
    ask(server.url, "/div/3", headers=named("after"))
    ids = {line["request_id"] for line in requests(server)}
    assert ids & {"before", "logged", "after"} == {"logged"}


def test_without_ids_no_reply_and_no_line_has_one(start: Callable[..., Server]) -> None:
    server = logging(start, "--request-ids", "off", "--log.level", EVERY_REQUEST)
    reply = ask(server.url, "/hello", headers={"x-request-id": "from-the-client"})
    assert "x-request-id" not in reply.headers
    (line,) = requests(server)
    assert "request_id" not in line


TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER_KIND = 2


def parent(sampled: bool) -> dict[str, str]:
    return {"traceparent": f"00-{TRACE}-{CALLER}-0{int(sampled)}", "tracestate": "congo=t61"}


@pytest.fixture
def spans() -> Iterator[Collector]:
    with collector() as running:
        yield running


def traced(start: Callable[..., Server], endpoint: str, *flags: str) -> Server:
    """Exports spans and shuts down immediately."""
    return start("--otlp.endpoint", endpoint, "--drain.settle", "0s", *flags)


def end(server: Server) -> None:
    server.terminate()
    assert server.end()[0] == 0


def dropped(server: Server, reason: str) -> float:
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
    """Yields the URL of a server that accepts connections but never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_collector_that_does_not_answer_harms_nobody(start: Callable[..., Server]) -> None:
    with silent() as address:
        flags = ("--otlp.ratio", "1", "--otlp.timeout", "1h", "--lanes", "1")
        server = traced(start, address, *flags)
        client = Client(server.url)
        # More spans than fit in the queue and the export requests in flight.
        assert {client.ask("/hello").status for _ in range(3000)} == {200}
        client.close()
        eventually(lambda: dropped(server, "queue_full") > 0, "dropped spans")
        # Shutdown does not wait for the collector's full timeout.
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
