"""Which requests are logged, and the spans that a collector gets."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import eventually
from support.client import Client, ask
from support.collector import collector
from support.envoys import Gateway, endpoint, gateway_to
from support.servers import Server

SAMPLED = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "x-client-trace-id": "c" * 32}


@contextmanager
def gateway_with(values: dict, server: Server, folder: Path) -> Iterator[Gateway]:
    """A gateway whose replica is healthy."""
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
        assert gateway.logged("/none")["status"] == 404
        assert "/hello" not in gateway.log.read_text()


def test_what_took_long_is_logged(server: Server, tmp_path: Path) -> None:
    values = {"accessLog": {"percent": 0, "slow": "0s"}}
    with gateway_with(values, server, tmp_path) as gateway:
        assert ask(gateway.url, "/hello").status == 200
        assert gateway.logged("/hello")["status"] == 200


def test_a_percentage_of_the_rest_is_logged(server: Server, tmp_path: Path) -> None:
    # Slow machines must not make every request a slow one.
    values = {"accessLog": {"percent": 50, "slow": "1h"}}
    with gateway_with(values, server, tmp_path) as gateway:
        client = Client(gateway.url)
        assert {client.ask("/hello").status for _ in range(400)} == {200}
        assert client.ask("/none").status == 404
        client.close()
        # 200 are expected, with a deviation of 10.
        eventually(lambda: gateway.log.read_text().count("/hello") > 100)
    assert gateway.log.read_text().count("/hello") < 300


def test_a_request_is_a_span_and_each_attempt_another(server: Server, tmp_path: Path) -> None:
    with collector() as spans:
        tracing = {"enabled": True, "protocol": "http", "host": "127.0.0.1", "port": spans.port}
        values = {"tracing": {**tracing, "percent": 100}}
        with gateway_with(values, server, tmp_path) as gateway:
            assert ask(gateway.url, "/hello").status == 200
            trace = gateway.logged("/hello")["trace_id"]
            eventually(lambda: len(spans.spans) == 2, "two spans")
            (whole,) = (span for span in spans.spans if not span.parent)
            (attempt,) = (span for span in spans.spans if span.parent)
            assert attempt.parent == whole.identifier
            assert {(span.service, span.trace) for span in spans.spans} == {
                ("corelane-gateway", trace)
            }
            assert set(spans.paths) == {"/v1/traces"}


def test_no_client_can_have_its_requests_traced(server: Server, tmp_path: Path) -> None:
    with collector() as spans:
        tracing = {"enabled": True, "protocol": "http", "host": "127.0.0.1", "port": spans.port}
        values = {"tracing": {**tracing, "percent": 0}}
        with gateway_with(values, server, tmp_path) as gateway:
            client = Client(gateway.url)
            assert {client.ask("/hello", headers=SAMPLED).status for _ in range(5)} == {200}
            client.close()
            eventually(lambda: gateway.counted("http.ingress.tracing.not_traceable") == 5)
            assert gateway.counted("tracing.opentelemetry.spans_sent") == 0
        assert spans.spans == []
