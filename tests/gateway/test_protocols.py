"""Exchanges other than one request and one response, through the real Envoy: event streams, gRPC."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import grpc as grpcio
import pytest
from hyperframe.frame import DataFrame, RstStreamFrame

from stack import PATIENCE, REPOSITORY, becomes, eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Reply, ask
from stack.ports import free_ports
from stack.programs import example, program
from support import http2
from support.http2 import Connection
from support.raw import connect, read_until, until_end
from support.recorder import Recorder

TIMEOUT = "1s"
"""Timeout of a gateway with silent replicas; the default is 30 s."""

SILENCE = {"timeout": TIMEOUT, "connectTimeout": "500ms"}


@dataclass
class Example:
    """A running example and its addresses."""

    process: subprocess.Popen[str]
    url: str

    def drain(self) -> None:
        """Asks the process to exit, as Kubernetes does."""
        self.process.send_signal(signal.SIGTERM)

    def end(self) -> str:
        """Waits for a clean exit; returns the rest of the output."""
        said, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0
        return said


@pytest.fixture
def run() -> Iterator[Callable[..., Example]]:
    """Starts examples; kills those that are still running at the end of a test."""
    with ExitStack() as stack:

        def start(program: Path, *arguments: str) -> Example:
            # The gRPC example has the settings of a service; the other examples take an address.
            free = "127.0.0.1:0"
            settings = [f"--listen={free}", f"--admin.listen={free}"]
            argv = [program, *(settings if program.name == "grpc" else [free]), *arguments]
            process = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            address = process.stdout.readline().removeprefix("listening on ").strip()
            return Example(process, f"http://{address}")

        yield start


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """Starts a gateway with additional values in front of the servers at some URLs."""
    with ExitStack() as stack:

        def start(values: dict, *urls: str) -> Gateway:
            replicas = [endpoint(url, url) for url in urls]
            checked = "health" in values["upstream"]
            change = None if checked else without_checks
            return stack.enter_context(gateway_to(replicas, tmp_path, values, change))

        yield start


def without_checks(configuration: dict) -> None:
    """Removes the health checks: examples have no admin port."""
    (server,) = (x for x in configuration["static_resources"]["clusters"] if x["name"] == "server")
    del server["health_checks"]


@pytest.fixture
def silent() -> Iterator[str]:
    """Yields the URL of a replica that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


GET = b"GET /ticks HTTP/1.1\r\nhost: gateway\r\n\r\n"


def test_events_outlast_every_timeout(
    run: Callable[..., Example], gateway: Callable[..., Gateway]
) -> None:
    limit = "2s"
    times = {"timeouts": {"request": limit, "stream": limit, "header": limit}}
    values = {"upstream": {**SILENCE, "timeout": limit}, "listener": times}
    # Each of these periods contains forty events; the stream has fifty in total.
    replica = run(example("sse"), "50")
    running = gateway(values, replica.url)
    with connect(running.url) as client:
        client.sendall(GET)
        read_until(client, b"data: 50\n")
        replica.drain()
        read_until(client, b"event: bye\n")
    assert replica.end().endswith("0 replies were cut\n")


def test_a_replica_that_does_not_answer_is_504(
    gateway: Callable[..., Gateway], silent: str
) -> None:
    reply = ask(gateway({"upstream": SILENCE}, silent).url, "/")
    assert (reply.status, reply.headers["content-type"]) == (504, "application/problem+json")


def test_a_reply_that_falls_silent_is_cut(gateway: Callable[..., Gateway]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        running = gateway({"upstream": SILENCE}, url)
        with connect(running.url) as client:
            client.sendall(GET)
            replica, _ = listener.accept()
            with replica:
                replica.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
                assert until_end(client).endswith(b"\r\n\r\nhalf")


GRPC = {"upstream": {"protocol": "grpc"}}


@pytest.fixture(scope="module")
def grpc() -> Path:
    """Yields the gRPC example."""
    return program("grpc")


def every_kind_of_call(url: str) -> None:
    """Makes calls with the example's client, which checks the responses."""
    cargo = ["cargo", "test", "--locked", "--quiet", "--test", "run", "gateway"]
    environment = {**os.environ, "GATEWAY": urlsplit(url).netloc}
    subprocess.run(cargo, cwd=REPOSITORY / "services", env=environment, check=True)


def test_every_kind_of_grpc_call_passes(
    run: Callable[..., Example], gateway: Callable[..., Gateway], grpc: Path
) -> None:
    running = gateway(GRPC, run(grpc).url)
    every_kind_of_call(running.url)
    # No more connections than necessary, because a connection carries several streams.
    assert running.counted("cluster.server.upstream_cx_total") <= 20
    # A browser uses gRPC-Web.
    reply, frames = grpc_web(running.url, "CountTo", 3)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/grpc-web+proto"
    assert [x[5:] for x in frames[:3]] == [b"\x08\1", b"\x08\2", b"\x08\3"]
    (trailers,) = frames[3:]
    assert trailers[0] == 0x80
    assert b"grpc-status:0" in trailers


def test_grpc_is_one_route_beside_others(
    run: Callable[..., Example], tmp_path: Path, grpc: Path
) -> None:
    url = run(grpc).url
    other = Recorder()
    counter = {"name": "counter", "endpoints": [endpoint(url, url)]}
    pages = {"name": "pages", "endpoints": [endpoint(other.url, other.admin)]}
    routes = [
        # This route uses gRPC health checks, and its clients may be browsers.
        {
            "name": "calls",
            "path": {"prefix": "/example.Counter"},
            "service": counter,
            "protocol": "grpc",
        },
        {"name": "pages", "service": pages},
    ]
    with gateway_to([], tmp_path, {"routes": routes}) as running:
        for name in ("counter", "pages"):
            healthy = f"cluster.prod-{name}-http.membership_healthy"
            eventually(lambda healthy=healthy: running.counted(healthy) == 1, healthy)
        every_kind_of_call(running.url)
        reply, frames = grpc_web(running.url, "CountTo", 1)
        assert reply.headers["content-type"] == "application/grpc-web+proto"
        assert len(frames) == 2
        assert ask(running.url, "/").status == 200
    other.close()


def grpc_web(url: str, call: str, *numbers: int, **headers: str) -> tuple[Reply, list[bytes]]:
    """Makes a gRPC-Web call; returns the response and the frames of its body, the last of which contains the
    trailers.
    """
    body = b"".join(b"\0\0\0\0\2\x08" + bytes([number]) for number in numbers)
    fields = {"content-type": "application/grpc-web+proto", **headers}
    reply = ask(url, f"/example.Counter/{call}", "POST", body=body, headers=fields)
    frames, rest = [], reply.body
    while rest:
        size = int.from_bytes(rest[1:5], "big")
        frames.append(rest[: 5 + size])
        rest = rest[5 + size :]
    return reply, frames


def test_health_is_checked_by_grpc(
    run: Callable[..., Example], gateway: Callable[..., Gateway], grpc: Path
) -> None:
    replica, other = run(grpc), Recorder()
    # The other replica answers any GET with 200, but it answers no calls.
    health = {"grpc": True, "interval": "100ms", "unhealthyThreshold": 1}
    values = {"upstream": {"protocol": "grpc", "health": health}}
    running = gateway(values, replica.url, other.url)

    def seen() -> tuple[int, bool]:
        names = ("membership_healthy", "health_check.failure")
        healthy, failures = (running.counted(f"cluster.server.{name}") for name in names)
        return healthy, failures > 0

    becomes(seen, (1, True))
    other.close()


def status_of_grpc(url: str, *more: tuple[bytes, bytes]) -> bytes:
    """Returns the status of a call that ends without a message."""
    fields = [(b"content-type", b"application/grpc"), (b"te", b"trailers"), *more]
    call = http2.get(b"/example.Counter/Add", *fields, method=b"POST")
    with Connection(url) as client:
        client.send(http2.request(1, call, b"\0" * 5))
        assert client.outcome() == 200
        assert not client.of(DataFrame)
        (head,) = client.fields[1]
        return head[b"grpc-status"]


def answers_until_its_deadline(url: str, call: str, message: bytes) -> list[bytes]:
    """Returns the responses to a bidirectional grpcio call until its deadline has passed.

    On a busy machine, the deadline can pass before the first response, in which case another call follows.
    """

    def answers() -> list[bytes]:
        found: list[bytes] = []
        over = threading.Event()

        def messages() -> Iterator[bytes]:
            yield message
            over.wait()

        with grpcio.insecure_channel(urlsplit(url).netloc) as channel:
            replies = channel.stream_stream(call)(messages(), timeout=0.3)
            try:
                with pytest.raises(grpcio.RpcError) as ended:
                    found.extend(replies)
            finally:
                over.set()
        assert ended.value.code() == grpcio.StatusCode.DEADLINE_EXCEEDED, ended.value
        return found

    return eventually(answers, "an answer before the deadline")


def test_only_its_client_ends_a_call_at_its_deadline(
    run: Callable[..., Example], gateway: Callable[..., Gateway], grpc: Path
) -> None:
    running = gateway(GRPC, run(grpc).url)
    one = b"\0\0\0\0\2\x08\1"
    fields = [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
    call = http2.get(b"/example.Counter/Sums", *fields, (b"grpc-timeout", b"100m"), method=b"POST")
    with Connection(running.url) as client:
        client.send(http2.opened(1, call))
        for count in (1, 2):
            client.send(DataFrame(1, one).serialize())
            client.until(lambda count=count: len(client.of(DataFrame, RstStreamFrame)) == count)
            assert not client.of(RstStreamFrame)
            # Each stream lasts longer than this call's deadline, which its client does not enforce.
            for _ in range(5):
                sums = answers_until_its_deadline(running.url, "/example.Counter/Sums", one[5:])
                assert sums == [one[5:]]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes resources at the end of the test."""
    with ExitStack() as found:
        yield found


def test_a_timeout_of_a_route_leaves_a_call_its_deadline(tmp_path: Path, stack: ExitStack) -> None:
    def left(_messages: object, context: grpcio.ServicerContext) -> Iterator[bytes]:
        yield b"less" if context.time_remaining() <= 0.3 else b"more"
        context.add_callback(over.set)
        over.wait()

    over = threading.Event()
    server = grpcio.server(ThreadPoolExecutor(1))
    handler = grpcio.stream_stream_rpc_method_handler(left)
    server.add_generic_rpc_handlers(
        (grpcio.method_handlers_generic_handler("any", {"Call": handler}),)
    )
    url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    stack.callback(server.stop, None)
    service = {"name": "calls", "endpoints": [endpoint(url, url)]}
    route = {"name": "calls", "service": service, "protocol": "grpc", "health": {"tcp": True}}
    with gateway_to([], tmp_path, {"routes": [{**route, "timeout": "10m"}]}) as running:
        healthy = "cluster.prod-calls-http.membership_healthy"
        eventually(lambda: running.counted(healthy) == 1, healthy)
        assert answers_until_its_deadline(running.url, "/any/Call", b"") == [b"less"]


def test_an_error_of_the_gateway_is_a_status_of_grpc(gateway: Callable[..., Gateway]) -> None:
    running = gateway(GRPC, f"http://127.0.0.1:{free_ports(1)}")
    unavailable = b"14"
    assert status_of_grpc(running.url) == unavailable
    reply, _ = grpc_web(running.url, "Add", 1)
    assert reply.headers["grpc-status"] == unavailable.decode()
    # The call's message does not contain a JSON document either.
    assert "{" not in reply.headers["grpc-message"]
