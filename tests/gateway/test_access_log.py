"""Logged requests, the spans that a collector receives, and the client addresses that the gateway determines."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stack import becomes, eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Client, ask
from stack.ports import free_ports
from stack.replica import Server
from support.collector import collector
from support.raw import exchange

SAMPLED = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "x-client-trace-id": "c" * 32}


@contextmanager
def gateway_with(values: dict, server: Server, folder: Path) -> Iterator[Gateway]:
    """Starts a gateway whose replica is healthy."""
    with gateway_to([endpoint(server.url, server.admin)], folder, values=values) as gateway:
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 1)
        yield gateway


def test_what_went_wrong_is_logged_and_the_rest_is_not(server: Server, tmp_path: Path) -> None:
    values = {"accessLog": {"percent": 0, "status": 404, "slow": "1h"}}
    with gateway_with(values, server, tmp_path) as gateway:
        client = Client(gateway.url)
        assert [client.ask(path).status for path in ("/hello", "/hello", "/none")] == [
            200,
            200,
            404,
        ]
        client.close()
        # Envoy writes the line of the last request after all earlier lines.
        assert gateway.logged("/none")["status"] == 404
        assert "/hello" not in gateway.log.read_text()


def test_what_took_long_is_logged(server: Server, tmp_path: Path) -> None:
    values = {"accessLog": {"percent": 0, "slow": "0s"}}
    with gateway_with(values, server, tmp_path) as gateway:
        assert ask(gateway.url, "/hello").status == 200
        assert gateway.logged("/hello")["status"] == 200


def test_a_percentage_of_the_rest_is_logged(server: Server, tmp_path: Path) -> None:
    # A slow machine must not make every request count as slow.
    values = {"accessLog": {"percent": 50, "slow": "1h"}}
    with gateway_with(values, server, tmp_path) as gateway:
        client = Client(gateway.url)
        assert {client.ask("/hello").status for _ in range(400)} == {200}
        assert client.ask("/none").status == 404
        client.close()
        # 200 are expected, with a deviation of 10.
        eventually(lambda: gateway.log.read_text().count("/hello") > 100)
    assert gateway.log.read_text().count("/hello") < 300


@pytest.mark.parametrize("attempts", [False, True])
def test_a_request_is_a_span_and_each_attempt_another_if_wanted(
    server: Server, tmp_path: Path, attempts: bool
) -> None:
    with collector() as spans:
        tracing = {"enabled": True, "protocol": "http", "host": "127.0.0.1", "port": spans.port}
        values = {"tracing": {**tracing, "percent": 100, "attempts": attempts}}
        with gateway_with(values, server, tmp_path) as gateway:
            assert ask(gateway.url, "/hello").status == 200
            trace = gateway.logged("/hello")["trace_id"]
            # The request's span is the last one.
            eventually(lambda: len(spans.spans) == 1 + attempts, "the spans")
            (whole,) = (span for span in spans.spans if not span.parent)
            assert [span.parent for span in spans.spans if span.parent] == [
                whole.identifier
            ] * attempts
            assert {(span.service, span.trace) for span in spans.spans} == {
                ("corelane-gateway", trace)
            }
            # The collector stores the path after the spans.
            becomes(lambda: set(spans.paths), {"/v1/traces"})


def test_no_client_can_have_its_requests_traced(server: Server, tmp_path: Path) -> None:
    with collector() as spans:
        tracing = {"enabled": True, "protocol": "http", "host": "127.0.0.1", "port": spans.port}
        values = {"tracing": {**tracing, "percent": 0}}
        with gateway_with(values, server, tmp_path) as gateway:
            client = Client(gateway.url)
            # Envoy sends each span immediately, so all spans but the last request's would have arrived.
            assert {client.ask("/hello", headers=SAMPLED).status for _ in range(5)} == {200}
            client.close()
            eventually(lambda: gateway.counted("http.ingress.tracing.not_traceable") == 5)
            assert gateway.counted("tracing.opentelemetry.spans_sent") == 0
        assert spans.spans == []


Start = Callable[[dict], Gateway]


@pytest.fixture
def gateway(server: Server, tmp_path: Path) -> Iterator[Start]:
    """Returns a function that starts a gateway with listener values, and waits until its replica is healthy."""
    with ExitStack() as stack:

        def run(listener: dict) -> Gateway:
            replicas, values = [endpoint(server.url, server.admin)], {"listener": listener}
            running = stack.enter_context(gateway_to(replicas, tmp_path, values=values))
            eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
            return running

        yield run


@pytest.mark.parametrize(
    ("hops", "client"), [(0, "127.0.0.1"), (1, "203.0.113.7"), (2, "198.51.100.1")]
)
def test_forwarded_addresses_are_believed_of_as_many_proxies_as_are_there(
    gateway: Start, hops: int, client: str
) -> None:
    running = gateway({"trustedHops": hops})
    forged = {"x-forwarded-for": "6.6.6.6, 198.51.100.1, 203.0.113.7"}
    assert ask(running.url, "/hello?from", headers=forged).status == 200
    assert running.logged("/hello?from")["client"] == client


@pytest.mark.parametrize("traced", [False, True])
def test_only_the_listener_for_services_keeps_a_request_id(
    server: Server, tmp_path: Path, traced: bool
) -> None:
    """A service passes on the id and the trace of the request that it handles."""
    port = free_ports(1)
    internal = {"enabled": True, "port": port}
    with collector() as spans:
        tracing = {"enabled": traced, "protocol": "http", "host": "127.0.0.1", "port": spans.port}
        values = {"listener": {"internal": internal}, "tracing": {**tracing, "percent": 100}}
        with gateway_with(values, server, tmp_path) as gateway:
            forged = {"x-request-id": "6f2b1c1e-1c2d-4e5f-8a9b-0c1d2e3f4a5b"}
            first = ask(gateway.url, "/hello?edge", headers=forged).headers["x-request-id"]
            assert first != forged["x-request-id"]
            assert gateway.logged("/hello?edge")["request_id"] == first
            # A job's own id is kept like the id of a request that entered here.
            for path, kept in [("/hello?call", {"x-request-id": first}), ("/hello?job", forged)]:
                call = ask(f"http://127.0.0.1:{port}", path, headers=kept)
                assert call.headers["x-request-id"] == kept["x-request-id"]
                assert gateway.logged(path)["request_id"] == kept["x-request-id"]


def test_the_proxy_protocol_says_whose_connection_it_is(gateway: Start) -> None:
    running = gateway({"proxyProtocol": True})
    request = b"GET /hello?by HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head = b"PROXY TCP4 203.0.113.9 192.0.2.1 40000 80\r\n"
    assert [reply.status for reply in exchange(running.url, head + request)] == [200]
    assert running.logged("/hello?by")["client"] == "203.0.113.9"
    assert exchange(running.url, request) == []
