"""HTTP/2 connections that make much work with little: each is ended or held to its limits."""

import math
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
import yaml

from stack import eventually
from stack.gateway import Gateway, endpoint, gateway_to, peak
from stack.http import ask
from support.h2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Connection,
    frame,
    get,
    integer,
    pack,
    request,
    reset,
)
from support.recorder import Record, Recorder

MANY = 2000
"""Of frames for which a few hundred are the limit, or fewer."""

ANSWERS = 2_000_000
"""Of frames that are answered: more than all buffers on the way hold for a client that reads nothing."""

VALUE, FRAMES, REFERENCES = 3900, 8, 12_000
"""A bomb: a field of about 4 KB, which so many frames refer to so often: 374 MB of fields in 100 KB."""


def opened(stream: int) -> bytes:
    """The head of a request whose body is to come."""
    fields = get(b"/flood", method=b"POST")
    return frame(HEADERS, END_HEADERS, stream, pack(fields))


def repeated(make: Callable[[int], bytes], count: int = MANY) -> bytes:
    """What `make` gives for each of the first streams."""
    return b"".join(make(2 * index + 1) for index in range(count))


def bomb(name: bytes) -> bytes:
    """A field that is told once and referred to many times (RFC 7541 section 6.1)."""
    fields = pack(get(b"/flood")) + name + integer(VALUE, 7) + b"a" * VALUE
    more = [frame(CONTINUATION, 0, 1, b"\xbe" * REFERENCES) for _ in range(FRAMES - 2)]
    more.append(frame(CONTINUATION, END_HEADERS, 1, b"\xbe" * REFERENCES))
    return frame(HEADERS, END_STREAM, 1, fields + b"\xbe" * REFERENCES) + b"".join(more)


ENDED: dict[str, Callable[[], bytes]] = {
    # CVE-2023-44487, and its forms in which the server is made to reset (CVE-2025-8671).
    "resets": lambda: repeated(lambda x: request(x, get(b"/flood")) + reset(x)),
    "refused fields": lambda: repeated(lambda x: request(x, get(b"/flood", (b"x_y", b"a")))),
    "length too short": lambda: repeated(
        lambda x: request(x, get(b"/flood", (b"content-length", b"1"), method=b"POST"), b"hello")
    ),
    "window of nothing": lambda: repeated(
        lambda x: opened(x) + frame(WINDOW_UPDATE, 0, x, bytes(4))
    ),
    "window too large": lambda: repeated(
        lambda x: opened(x) + frame(WINDOW_UPDATE, 0, x, b"\x7f" + b"\xff" * 3)
    ),
    "data behind the end": lambda: repeated(
        lambda x: request(x, get(b"/flood")) + frame(DATA, 0, x, b"x")
    ),
    "head behind the end": lambda: repeated(lambda x: request(x, get(b"/flood")) * 2),
    # CVE-2024-27316, CVE-2024-30255.
    "continuations": lambda: (
        frame(HEADERS, END_STREAM, 1, pack(get(b"/flood")))
        + frame(CONTINUATION, 0, 1, pack([(b"x", b"a" * 1000)])) * MANY
    ),
    "empty continuations": lambda: (
        frame(HEADERS, END_STREAM, 1, pack(get(b"/flood"))) + frame(CONTINUATION, 0, 1) * MANY
    ),
    # CVE-2019-9512, 9515, 9518, 9511, 9513 and 9516.
    "pings": lambda: frame(PING, payload=bytes(8)) * ANSWERS,
    "settings": lambda: frame(SETTINGS, payload=b"\0\3\0\0\0\x64") * ANSWERS,
    "empty settings": lambda: frame(SETTINGS) * ANSWERS,
    "empty data": lambda: opened(1) + frame(DATA, 0, 1) * MANY,
    "windows of a stream": lambda: opened(1) + frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1") * MANY,
    "windows of all": lambda: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * MANY,
    "priorities": lambda: frame(PRIORITY, 0, 1, b"\0\0\0\3\x10") * MANY,
    "fields without a name": lambda: frame(
        HEADERS, END_STREAM | END_HEADERS, 1, pack(get(b"/flood")) + bytes(3) * MANY
    ),
    # What breaks the rules once.
    "window of all too large": lambda: frame(WINDOW_UPDATE, 0, 0, b"\x7f" + b"\xff" * 3),
    "first window too large": lambda: frame(SETTINGS, payload=b"\0\4\x80\0\0\0"),
    "frame too large": lambda: frame(DATA, 0, 1, bytes(16385)),
    "data of no stream": lambda: frame(DATA, 0, 1, b"x"),
    "reset of no stream": lambda: reset(1),
    "stream of the server": lambda: request(2, get(b"/flood")),
    "push": lambda: frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + pack(get(b"/flood"))),
}
"""The gateway ends the connection."""

BORNE: dict[str, Callable[[], bytes]] = {
    "bomb of fields": lambda: bomb(b"\x40\x01x"),
    "bomb of cookies": lambda: bomb(b"\x60"),
    "many cookies": lambda: request(1, get(b"/flood", *[(b"cookie", b"a=b")] * 200)),
    "many trailers": lambda: (
        opened(1)
        + frame(HEADERS, END_HEADERS | END_STREAM, 1, pack((b"x%d" % x, b"a") for x in range(200)))
    ),
    "streams beyond the limit": lambda: repeated(opened),
}
"""The gateway resets the streams in question, and the connection goes on."""

FREE: dict[str, Callable[[], bytes]] = {
    "a few resets": lambda: repeated(lambda x: request(x, get(b"/flood")) + reset(x), 50),
    "a few pings": lambda: frame(PING, payload=bytes(8)) * 50,
    "a few windows": lambda: opened(1) + frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1") * 5,
    "a few cookies": lambda: request(1, get(b"/flood", *[(b"cookie", b"a=b")] * 20)),
    "continuations of one head": lambda: (
        frame(HEADERS, END_STREAM, 1, pack(get(b"/flood")))
        + frame(CONTINUATION, END_HEADERS, 1, pack([(b"x", b"a" * 1000)]))
    ),
    "as many streams as allowed": lambda: repeated(opened, 100),
    "frames of unknown kinds": lambda: frame(0x77, payload=b"x") * MANY,
}
"""Their neighbours, which the gateway leaves alone."""


@dataclass(frozen=True)
class Aftermath:
    """What came of all floods."""

    ended: dict[str, bool]
    resets: dict[str, int]
    others: list[int]
    record: Record
    grown: int


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Recorder, dict]]:
    """A gateway of its own, before a recorder, and its options for HTTP/2."""
    recorder, folder = Recorder(), tmp_path_factory.mktemp("flooded")
    # Each connection may reset as many streams as by default, but a slow client exceeds that, too.
    values = {"listener": {"http2": {"resetRate": 1}}}
    with gateway_to([endpoint(recorder.url, recorder.admin)], folder, values) as gateway:
        eventually(lambda: ask(gateway.url, "/").status == 200)
        listeners = yaml.safe_load((folder / "envoy.yaml").read_text())["static_resources"]
        (ingress,) = (x for x in listeners["listeners"] if x["name"] == "ingress")
        manager = ingress["filter_chains"][0]["filters"][0]["typed_config"]
        yield gateway, recorder, manager["http2_protocol_options"]
    recorder.close()


@pytest.fixture(scope="module")
def aftermath(target: tuple[Gateway, Recorder, dict]) -> Aftermath:
    """Every flood on a connection of its own, and after each another client.

    The connections end together: Envoy gives each a second to close first.
    """
    gateway, recorder, _ = target
    recorder.take()
    before, others = peak(gateway), []
    with ExitStack() as stack:
        connections = {}
        for name, make in {**ENDED, **BORNE, **FREE}.items():
            # A small window, so that a client that does not read is soon one that cannot be sent to.
            connection = stack.enter_context(Connection(gateway.url, receive_bytes=4096))
            connections[name] = connection
            connection.send(make())
            others.append(ask(gateway.url, "/other").status)
        for name, connection in connections.items():
            if name in BORNE:
                connection.until(lambda each=connection: each.of(RST_STREAM))
            connection.settle()
        return Aftermath(
            {name: each.ended for name, each in connections.items()},
            {name: len(each.of(RST_STREAM)) for name, each in connections.items()},
            others,
            recorder.take(),
            peak(gateway) - before,
        )


@pytest.mark.parametrize("name", ENDED)
def test_a_flood_ends_its_connection(aftermath: Aftermath, name: str) -> None:
    assert aftermath.ended[name]


@pytest.mark.parametrize("name", BORNE)
def test_what_is_beyond_a_limit_is_reset(aftermath: Aftermath, name: str) -> None:
    assert aftermath.resets[name]
    assert not aftermath.ended[name]


@pytest.mark.parametrize("name", FREE)
def test_the_neighbours_of_floods_are_left_alone(aftermath: Aftermath, name: str) -> None:
    assert (aftermath.ended[name], aftermath.resets[name]) == (False, 0)


def test_other_clients_are_served_after_each_flood(aftermath: Aftermath) -> None:
    assert aftermath.others == [200] * len({**ENDED, **BORNE, **FREE})


def test_the_back_end_sees_requests_of_good_form_only(aftermath: Aftermath) -> None:
    assert not aftermath.record.unclear
    # The two neighbours that are whole requests, and of the floods what came before its fault.
    seen = [each for each in aftermath.record.requests if b"flood" in each.line]
    assert {each.line for each in seen} == {b"GET /flood HTTP/1.1"}
    assert not [each for each in seen if len(each.data) > 32 * 1024]


def test_memory_stays_within_bounds(aftermath: Aftermath) -> None:
    # A bomb that is unpacked whole takes eight times as much; so did the three queues of answers, without
    # a limit. What is usual, for all connections together, is a sixth of the bound.
    assert aftermath.grown * 1024 < VALUE * FRAMES * REFERENCES / 8


def test_resets_are_counted_whatever_reaches_the_back_end(
    target: tuple[Gateway, Recorder, dict],
) -> None:
    gateway, recorder, options = target
    burst, rate = options["stream_reset_burst"], options["stream_reset_rate"]
    recorder.take()
    began, sent = time.monotonic(), 0
    with Connection(gateway.url) as connection:
        while not connection.ended and sent < 100 * burst:
            stream, sent = 2 * sent + 1, sent + 1
            connection.send(opened(stream))
            # The gateway has read the head, so it is on its way to the back end.
            connection.settle()
            connection.send(reset(stream))
        assert connection.ended
    refilled = math.ceil((time.monotonic() - began) * rate)
    assert ask(gateway.url, "/other").status == 200
    seen = recorder.take().data.count(b"POST /flood")
    # The head behind the last reset may be on its way already.
    assert 0 < seen <= burst + refilled + 2


def test_no_connection_of_a_flood_is_left(target: tuple[Gateway, Recorder, dict]) -> None:
    gateway, _, options = target
    assert options["max_concurrent_streams"] == 100

    def active() -> list[int]:
        text = ask(gateway.stats, "/stats/prometheus").body.decode()
        name = r"^envoy_http_downstream_(?:cx|rq)_active\{.*ingress.*\} (\d+)$"
        return [int(each) for each in re.findall(name, text, re.MULTILINE)]

    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))):
        eventually(lambda: active() == [1, 0], "one connection, no request")
    eventually(lambda: active() == [0, 0], "no connection, no request")
