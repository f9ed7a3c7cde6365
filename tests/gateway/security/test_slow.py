"""Clients that send or read slowly, to hold what they have opened: the gateway ends them in time."""

import re
import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from support import eventually
from support.attacks import HOST
from support.client import ask
from support.envoys import Gateway, endpoint, gateway_to
from support.h2c import END_HEADERS, HEADERS, PREFACE, SETTINGS
from support.h2raw import Connection, frame, get, pack, request
from support.raw import connect, replies, until_end
from support.servers import Server

# Far below the defaults, so that the tests are brief; each of them alone ends some of the clients.
LIMITS = {"header": "1s", "request": "2s", "stream": "3s", "idle": "2s", "buffer": "2s"}

FILE = 32 * 1024 * 1024
"""Bytes of a reply: more than all buffers on the way hold."""

POST = b"POST /hello HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
WINDOW_0 = b"\0\4\0\0\0\0"


@pytest.fixture(scope="module")
def gateway(
    start_once: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway with short time limits, before a server with a large file."""
    folder = tmp_path_factory.mktemp("slow")
    with (folder / "large.bin").open("wb") as file:
        file.truncate(FILE)
    server = start_once(static=folder)
    values = {"listener": {"timeouts": LIMITS}}
    with gateway_to(
        [endpoint(server.url, server.admin)], tmp_path_factory.mktemp("gateway"), values=values
    ) as gateway:
        eventually(lambda: ask(gateway.url, "/hello").status == 200)
        yield gateway


def active(gateway: Gateway, kind: str) -> int:
    """How many connections (`cx`) or requests (`rq`) clients have open."""
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
    "half a preface": (PREFACE[:10], []),
    "http2 without a request": (PREFACE + frame(SETTINGS), None),
    "http2 with half a head": (
        PREFACE + frame(SETTINGS) + frame(HEADERS, 0, 1, pack(get())),
        None,
    ),
}
"""What a client sends before it falls silent, and the statuses of the replies (None: not HTTP/1.1)."""


@pytest.fixture(scope="module")
def silent(gateway: Gateway) -> dict[str, bytes]:
    """What each client got when the gateway ended its connection; all were open at once, five times."""
    with ExitStack() as stack:
        connections = {}
        for name, (data, _) in SILENT.items():
            for index in range(5):
                connection = stack.enter_context(connect(gateway.url))
                connection.sendall(data)
                connections[name, index] = connection
        assert ask(gateway.url, "/hello").status == 200
        received = {key: until_end(each) for key, each in connections.items()}
    return {name: received[name, 0] for name in SILENT}


@pytest.mark.parametrize("name", SILENT)
def test_a_client_that_falls_silent_is_ended(silent: dict[str, bytes], name: str) -> None:
    expected = SILENT[name][1]
    if expected is not None:
        assert [reply.status for reply in replies(silent[name])] == expected


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"GET /hello HTTP/1.1\r\n" + HOST, b"x: y\r\n"),
        (POST + b"content-length: 1000\r\n\r\n", b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
    ],
    ids=["head", "body", "chunks"],
)
def test_a_trickle_does_not_move_the_limit(gateway: Gateway, head: bytes, piece: bytes) -> None:
    with connect(gateway.url) as connection:
        connection.sendall(head)
        # The pause makes it a trickle; how long it lasts is the gateway's affair.
        for _ in range(200):
            if select.select([connection], [], [], 0.1)[0]:
                break
            connection.sendall(piece)
        (reply,) = replies(until_end(connection))
    assert reply.status == 408
    assert ask(gateway.url, "/hello").status == 200


@dataclass(frozen=True)
class Reader:
    """A client that asks for the large file and does not read it."""

    protocol: str
    ask: bytes

    def read(self, gateway: Gateway, stack: ExitStack) -> Callable[[], int]:
        """Asks; what is returned reads all there is and gives its size."""
        connection = stack.enter_context(connect(gateway.url, receive_bytes=4096))
        connection.sendall(self.ask)
        return lambda: len(until_end(connection))


LARGE = b"/static/large.bin"
READERS = [
    Reader("http1", b"GET " + LARGE + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    Reader("http2", PREFACE + frame(SETTINGS) + request(1, get(LARGE))),
    Reader(
        "http2 without a window", PREFACE + frame(SETTINGS, 0, 0, WINDOW_0) + request(1, get(LARGE))
    ),
]


def test_clients_that_do_not_read_are_ended(gateway: Gateway) -> None:
    with ExitStack() as stack:
        readers = [each.read(gateway, stack) for each in READERS]
        eventually(lambda: active(gateway, "rq") == len(READERS), "all requests are under way")
        assert ask(gateway.url, "/hello").status == 200
        eventually(lambda: active(gateway, "rq") == 0, "no request is left")
        eventually(lambda: active(gateway, "cx") == 0, "no connection is left")
        for read in readers:
            assert read() < FILE
    with connect(gateway.url) as connection:
        connection.sendall(READERS[0].ask.replace(HOST, HOST + b"connection: close\r\n"))
        assert len(until_end(connection)) > FILE


def test_streams_that_wait_for_their_body_are_reset(gateway: Gateway) -> None:
    with Connection(gateway.url) as connection:
        head = pack(get(b"/hello", method=b"POST"))
        connection.send(frame(HEADERS, END_HEADERS, 1, head) + request(3, get(b"/hello")))
        assert connection.outcome(3) == 200
        assert connection.outcome(1) in (408, "reset")
