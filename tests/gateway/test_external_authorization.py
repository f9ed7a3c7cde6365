"""External authorization: the real Envoy queries a service over HTTP and gRPC, and the service
decides about each request."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest

from stack import eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import ask
from stack.http_server import Request, serving
from support.recorder import Recorder

NAMES = ("authorization", "x-user", "x-private")
LONG = b"x" * 200_000


class Decider:
    """The service. It allows `allow`, rejects everything else, and does not answer `hang` until it
    stops."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.bodies: list[bytes] = []
        self.seen: list[bytes] = []

    def allows(self, asked: bytes) -> bool:
        """Decides based on what the service received."""
        self.seen.append(asked)
        if b"hang" in asked:
            self.end.wait()
        return b"allow" in asked

    def http(self, request: Request) -> None:
        """Answers over HTTP."""
        self.bodies.append(request.body())
        allowed = self.allows(str(request.headers).encode())
        request.reply(200 if allowed else 403, ("x-user", "ann"))

    def grpc(self, message: bytes, _: grpc.ServicerContext) -> bytes:
        """Answers an `envoy.service.auth.v3.CheckRequest`, which contains the headers as text."""
        if not self.allows(message):
            return field(1, b"\x08\x07")
        header = field(1, field(1, b"x-user") + field(2, b"ann"))
        return field(1, b"") + field(3, field(2, header))


def field(number: int, value: bytes) -> bytes:
    """Returns a short field of a message in protobuf's encoding."""
    return bytes([number << 3 | 2, len(value)]) + value


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """Yields the protected service."""
    running = Recorder()
    yield running
    running.close()


@pytest.fixture(params=["http", "grpc"])
def decider(request: pytest.FixtureRequest) -> Iterator[tuple[Decider, str, int]]:
    """Yields a service with its protocol and port."""
    made = Decider()
    if request.param == "http":
        with serving(lambda asked: made.http(asked)) as url:
            yield made, "http", urlsplit(url).port
            made.end.set()
        return
    handler = grpc.unary_unary_rpc_method_handler(made.grpc)
    service = {"Check": handler}
    server = grpc.server(ThreadPoolExecutor(4))
    name = "envoy.service.auth.v3.Authorization"
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, service)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield made, "grpc", port
    made.end.set()
    server.stop(None).wait()


@pytest.fixture
def gateway(
    decider: tuple[Decider, str, int], recorder: Recorder, tmp_path: Path
) -> Iterator[Gateway]:
    """Starts a gateway whose /open route does not query the service."""
    _, protocol, port = decider
    asked = {"enabled": True, "protocol": protocol, "host": "127.0.0.1", "port": port}
    # Long enough for a busy machine; requests for `hang` wait this long.
    asked |= {"responseHeaders": ["x-user"], "timeout": "5s"}
    service = {"service": {"name": "one", "endpoints": [endpoint(recorder.url, recorder.admin)]}}
    opened = {"name": "open", "path": {"prefix": "/open"}, "externalAuthorization": False}
    routes = [opened | service, {"name": "asked"} | service]
    with gateway_to([], tmp_path, {"externalAuthorization": asked, "routes": routes}) as running:
        eventually(lambda: running.counted("cluster.prod-one-http.membership_healthy") == 1)
        recorder.take()
        yield running


def test_the_service_decides_and_without_it_nothing_passes(
    gateway: Gateway, decider: tuple[Decider, str, int], recorder: Recorder
) -> None:
    made, _, _ = decider

    def status(path: str, word: str, method: str = "GET", body: bytes | None = None) -> int:
        headers = {"authorization": word, "x-user": "root", "x-private": "private"}
        return ask(gateway.url, path, method, headers=headers, body=body).status

    def told() -> list[dict]:
        requests = recorder.take().requests
        return [
            {name: value for name, value in each.fields if name.decode() in NAMES}
            for each in requests
        ]

    assert status("/a", "allow") == 200
    assert told() == [{b"authorization": b"allow", b"x-user": b"ann", b"x-private": b"private"}]
    # The body is larger than Envoy's buffer, and the service does not receive it.
    assert status("/a", "allow", "POST", LONG) == 200
    assert len(recorder.take().requests[0].body) == len(LONG)
    assert [status("/a", word) for word in ("deny", "hang")] == [403, 503]
    assert told() == []
    assert status("/open", "deny") == 200
    assert told() == [{b"authorization": b"deny", b"x-private": b"private"}]
    assert set(made.bodies) <= {b""}
    assert not any(
        word in asked for asked in made.seen for word in (b"private", LONG[:100], b"root")
    )
    counted = {
        name: gateway.counted(f"http.ingress.ext_authz.{name}")
        for name in ("ok", "denied", "error")
    }
    assert counted == {"ok": 2, "denied": 1, "error": 1}


def test_a_service_that_is_down_lets_nothing_pass(recorder: Recorder, tmp_path: Path) -> None:
    recorder.take()
    down = {"enabled": True, "host": "127.0.0.1", "port": 1}
    replicas = [endpoint(recorder.url, recorder.admin)]
    with gateway_to(replicas, tmp_path, {"externalAuthorization": down}) as gateway:
        assert ask(gateway.url, "/", headers={"authorization": "allow"}).status == 503
        assert gateway.counted("http.ingress.ext_authz.error") == 1
    assert recorder.take().requests == []
