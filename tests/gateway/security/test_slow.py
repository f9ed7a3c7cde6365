"""Clients that send or read slowly to occupy resources: the gateway disconnects them in time."""

import re
import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame

from stack import eventually
from stack.gateway import Gateway, endpoint, gateway_to, merged, peak
from stack.http import ask
from stack.load import Load
from stack.replica import Server
from support.attacks import HOST, Upstream
from support.cgroups import cgroup
from support.http2 import PREFACE, Connection, get, opened, pack, request
from support.raw import connect, replies, until_end
from support.recorder import Recorder

# Limits far below the defaults shorten the tests; each limit alone disconnects some of the clients.
LIMITS = {"header": "1s", "request": "2s", "stream": "3s", "idle": "2s", "buffer": "2s"}

FILE = 32 * 1024 * 1024
"""Bytes of a response: more than all buffers on the path hold."""

POST = b"POST /hello HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
WINDOW_0 = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}


@pytest.fixture(scope="module")
def gateways(
    start_behind: Callable[..., Server],
    upstream: Upstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Gateway, Gateway]]:
    """Yields two gateways with short time limits: one in front of a back end that waits for bodies,
    and one in front of a server with a large file.
    """
    folder = tmp_path_factory.mktemp("static")
    with (folder / "large.bin").open("wb") as file:
        file.truncate(FILE)
    recorder, server = Recorder(upstream.tls), start_behind(static=folder)
    values = {"listener": {"timeouts": LIMITS}, "upstream": {"timeout": LIMITS["stream"]}}
    values = merged(upstream.values, values)
    with ExitStack() as stack:
        started = []
        for each in (recorder, server):
            ends, folder = [endpoint(each.url, each.admin)], tmp_path_factory.mktemp("slow")
            started.append(stack.enter_context(gateway_to(ends, folder, values=values)))
            eventually(lambda: ask(started[-1].url, "/hello").status == 200)
        yield tuple(started)
    recorder.close()


@pytest.fixture
def gateway(gateways: tuple[Gateway, Gateway]) -> Gateway:
    """Returns the gateway whose back end waits for bodies."""
    return gateways[0]


def active(gateway: Gateway, kind: str) -> int:
    """Returns the number of open downstream connections (`cx`) or requests (`rq`)."""
    text = ask(gateway.stats, "/stats/prometheus").body.decode()
    name = rf"^envoy_http_downstream_{kind}_active\{{.*ingress.*\}} (\d+)$"
    (number,) = re.findall(name, text, re.MULTILINE)
    return int(number)


SILENT = {
    "nothing": (b"", []),
    "half a line": (b"GET /hel", [408]),
    "half a head": (b"GET /hello HTTP/1.1\r\n" + HOST, [408]),
    "half a body": (POST + b"content-length: 9\r\n\r\nhel", [408]),
    "half a chunk": (CHUNKED + b"9\r\nhel", [408]),
    "the largest chunk": (CHUNKED + b"ffffffffffffffff\r\nhel", [408]),
    "no last chunk": (CHUNKED + b"3\r\nhel\r\n", [408]),
    "half a trailer": (CHUNKED + b"3\r\nhel\r\n0\r\nx: ", [408]),
    "half a second head": (b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\nGET /hel", [200, 408]),
    "half a preface": (PREFACE[:10], [408]),
}
"""Bytes that a client sends before it falls silent, and the statuses of the responses."""


@pytest.fixture(scope="module")
def silent(gateways: tuple[Gateway, Gateway]) -> dict[str, list[bytes]]:
    """Returns the data that each client received before the gateway closed its connection. All
    clients are connected at once, five of each kind."""
    with ExitStack() as stack:
        connections = {name: [] for name in SILENT}
        for name, (data, _) in list(SILENT.items()) * 5:
            connections[name].append(stack.enter_context(connect(gateways[0].url)))
            connections[name][-1].sendall(data)
        assert ask(gateways[0].url, "/hello").status == 200
        return {name: [until_end(each) for each in five] for name, five in connections.items()}


@pytest.mark.parametrize("name", SILENT)
def test_a_client_that_falls_silent_is_ended(silent: dict[str, list[bytes]], name: str) -> None:
    statuses = [[reply.status for reply in replies(each)] for each in silent[name]]
    assert statuses == [SILENT[name][1]] * 5


def test_a_silent_client_of_http2_is_ended(gateway: Gateway) -> None:
    fields = get(b"/hello", method=b"POST")
    with (
        Connection(gateway.url) as idle,
        Connection(gateway.url) as half,
        Connection(gateway.url) as waiting,
    ):
        half.send(HeadersFrame(1, pack(fields)).serialize())
        waiting.send(opened(1, fields))
        for each in (idle, half):
            each.until(lambda each=each: each.of(GoAwayFrame))
            assert each.of(GoAwayFrame)
        # Only the stream that is waiting for its body ends.
        assert waiting.outcome(1) == 408
        waiting.send(request(3, get(b"/hello")))
        assert waiting.outcome(3) == 200


TRICKLES = (
    (b"GET /hello HTTP/1.1\r\n" + HOST, b"x: y\r\n"),
    (POST + b"content-length: 1000\r\n\r\n", b"x"),
    (CHUNKED, b"1\r\nx\r\n"),
)
"""The beginning of a request, and the bytes that its client then sends from time to time."""


def test_a_trickle_does_not_move_the_limit(gateway: Gateway) -> None:
    with ExitStack() as stack:
        pieces = {}
        for head, piece in TRICKLES:
            connection = stack.enter_context(connect(gateway.url))
            connection.sendall(head)
            pieces[connection] = piece
        # The pause turns the data into a trickle, and the gateway determines how long the trickle
        # lasts.
        for _ in range(200):
            for ended in select.select(pieces, [], [], 0.1)[0]:
                del pieces[ended]
                (reply,) = replies(until_end(ended))
                assert reply.status == 408
            for connection, piece in pieces.items():
                # The next round checks the response of clients that have been disconnected in the
                # meantime.
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.sendall(piece)
            if not pieces:
                break
        assert not pieces
    assert ask(gateway.url, "/hello").status == 200


LARGE = b"/static/large.bin"
WHOLE = b"GET " + LARGE + b" HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n"


def kept_by_the_kernel(url: str) -> int:
    """Returns the bytes that wait in the kernel for the clients of a port: `tx_queue` of proc_net_tcp(5)."""
    port = f":{int(url.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].split(":")[0], 16) for row in rows if row[1].endswith(port))


def test_many_clients_that_do_not_read_take_little_and_fail_no_request_of_others(
    start_behind: Callable[..., Server], upstream: Upstream, tmp_path: Path
) -> None:
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(FILE)
    server, count = start_behind(static=tmp_path), 200
    with (
        gateway_to([endpoint(server.url, server.admin)], tmp_path, upstream.values) as gateway,
        ExitStack() as stack,
    ):
        eventually(lambda: ask(gateway.url, "/hello").status == 200)
        with Load(gateway.url, clients=4) as load:
            readers = [
                stack.enter_context(connect(gateway.url, receive_bytes=4096)) for _ in range(count)
            ]
            for reader in readers:
                reader.sendall(WHOLE)
            for reader in readers:
                assert reader.recv(1) == b"H"
            load.wait_for(200)
            # The gateway and the server have filled their buffers, which would hold 4 MiB each
            # without a limit.
            for each in (gateway, server):
                assert kept_by_the_kernel(each.url) < count * 512 * 1024
        assert not load.failures


MEBIBYTES = 256
"""Memory limit of a gateway. Its clients request more data than that on streams that they do not
read.
"""

STREAMS, CONNECTIONS = 100, 30


def unread(connection: Connection) -> int:
    """Opens the maximum number of streams and waits until each has a stalled response or was reset.
    Returns the number of resets.
    """
    streams = [2 * index + 1 for index in range(STREAMS)]
    connection.send(b"".join(request(each, get(LARGE)) for each in streams))

    def begun() -> bool:
        seen = {each.stream_id for each in connection.of(HeadersFrame, RstStreamFrame)}
        return seen.issuperset(streams)

    connection.until(begun)
    assert begun()
    return len(connection.of(RstStreamFrame))


@pytest.mark.parametrize("monitor", ["heap", "cgroup"])
def test_streams_without_a_window_stay_within_the_memory_and_fail_no_request_of_others(
    start_behind: Callable[..., Server], upstream: Upstream, tmp_path: Path, monitor: str
) -> None:
    """Without a limit, each stream would take 128 KiB: in total, 1.5 times the memory limit."""
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(FILE)
    server = start_behind(static=tmp_path)
    values = {"memory": f"{MEBIBYTES}Mi", "overload": {"monitor": monitor}}
    values = merged(upstream.values, values)
    with ExitStack() as stack:
        within = []
        if monitor == "cgroup":
            # The kernel kills Envoy if it uses more memory.
            limits = ("memory.max", "memory.limit_in_bytes")
            memory = stack.enter_context(cgroup("memory", *limits))
            (limit,) = (each for each in limits if memory.has(each))
            memory.write(limit, f"{MEBIBYTES}M")
            within = memory.within()
        replicas = [endpoint(server.url, server.admin)]
        gateway = stack.enter_context(gateway_to(replicas, tmp_path, values=values, within=within))
        eventually(lambda: ask(gateway.url, "/hello").status == 200)
        before = peak(gateway)
        with Load(gateway.url, clients=4) as load:
            resets = 0
            for _ in range(CONNECTIONS):
                resets += unread(stack.enter_context(Connection(gateway.url, WINDOW_0)))
            load.wait_for(200)
        assert resets
        assert not load.failures
        assert peak(gateway) - before < MEBIBYTES * 1024
        # New clients of both protocols are served, no matter what old clients still occupy.
        with Connection(gateway.url) as connection:
            connection.send(request(1, get(b"/hello")))
            assert connection.outcome() == 200
        assert ask(gateway.url, "/hello").status == 200


def test_clients_that_do_not_read_are_ended(gateways: tuple[Gateway, Gateway]) -> None:
    _, gateway = gateways
    small = {"receive_bytes": 4096}
    with (
        connect(gateway.url, **small) as http1,
        Connection(gateway.url, **small) as http2,
        Connection(gateway.url, WINDOW_0, **small) as no_window,
    ):
        http1.sendall(WHOLE)
        http2.send(request(1, get(LARGE)))
        no_window.send(request(1, get(LARGE)))
        # All requests are in flight: the beginning of each response has arrived.
        assert http1.recv(1) == b"H"
        for each in (http2, no_window):
            each.until(lambda each=each: each.of(HeadersFrame))
            assert each.outcome() == 200
        assert ask(gateway.url, "/hello").status == 200
        eventually(lambda: active(gateway, "rq") == 0, "no request is left")
        assert len(until_end(http1)) < FILE
        for each in (http2, no_window):
            each.until(lambda each=each: each.of(RstStreamFrame))
            assert not [x for x in each.of(DataFrame) if "END_STREAM" in x.flags]
    with connect(gateway.url) as connection:
        connection.sendall(WHOLE)
        assert len(until_end(connection)) > FILE
