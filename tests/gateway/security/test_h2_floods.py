"""HTTP/2 connections that cause a lot of work with few bytes: the gateway closes each connection or
enforces its limits on it."""

import math
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
import yaml
from hpack.hpack import encode_integer
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from stack import eventually
from stack.gateway import Gateway, endpoint, gateway_to, merged, peak
from stack.http import ask
from support import http2
from support.attacks import Upstream
from support.http2 import Connection, get, pack, request, reset
from support.recorder import Record, Recorder

MANY = 4000
"""Number of frames in floods whose limit is a few hundred frames or fewer. They exceed one 64 KiB
read by Envoy.
"""

ANSWERS = 2_000_000
"""Number of frames that require a response: more than all buffers on the path hold for a client that does not read."""

VALUE, FRAMES, REFERENCES = 3900, 8, 12_000
"""Size of a bomb: bytes of a field, number of frames that refer to it, and references in each
frame. 100 KB of frames expand to 374 MB of fields.
"""


LARGEST = 2**31 - 1
"""The maximum size of a window."""


def opened(stream: int) -> bytes:
    """Returns the head of a request whose body follows."""
    return http2.opened(stream, get(b"/flood", method=b"POST"))


def head(*flags: str, more: bytes = b"") -> bytes:
    """Returns the head of a request without a body, or the beginning of one."""
    return HeadersFrame(1, pack(get(b"/flood")) + more, flags=["END_STREAM", *flags]).serialize()


def rest(data: bytes = b"", *flags: str) -> bytes:
    """Returns the continuation of a head."""
    return ContinuationFrame(1, data, flags=flags).serialize()


def window(stream: int, more: int) -> bytes:
    """Returns a WINDOW_UPDATE."""
    return WindowUpdateFrame(stream, window_increment=more).serialize()


def repeated(make: Callable[[int], bytes], count: int = MANY) -> bytes:
    """Returns the output of `make` for each of the first streams."""
    return b"".join(make(2 * index + 1) for index in range(count))


def bomb(name: bytes) -> bytes:
    """Returns a field that is sent once and referenced many times (RFC 7541 section 6.1)."""
    references = b"\xbe" * REFERENCES
    begin = head(more=name + encode_integer(VALUE, 7) + b"a" * VALUE + references)
    return begin + rest(references) * (FRAMES - 2) + rest(references, "END_HEADERS")


ENDED: dict[str, Callable[[], bytes]] = {
    # CVE-2023-44487, and its variants in which the server is made to reset (CVE-2025-8671).
    "resets": lambda: repeated(lambda x: request(x, get(b"/flood")) + reset(x)),
    "refused fields": lambda: repeated(lambda x: request(x, get(b"/flood", (b"x_y", b"a")))),
    "length too short": lambda: repeated(
        lambda x: request(x, get(b"/flood", (b"content-length", b"1"), method=b"POST"), b"hello")
    ),
    "window of nothing": lambda: repeated(lambda x: opened(x) + window(x, 0)),
    "window too large": lambda: repeated(lambda x: opened(x) + window(x, LARGEST)),
    "data behind the end": lambda: repeated(
        lambda x: request(x, get(b"/flood")) + DataFrame(x, b"x").serialize()
    ),
    "head behind the end": lambda: repeated(lambda x: request(x, get(b"/flood")) * 2),
    # CVE-2024-27316, CVE-2024-30255.
    "continuations": lambda: head() + rest(pack([(b"x", b"a" * 1000)])) * MANY,
    "empty continuations": lambda: head() + rest() * MANY,
    # CVE-2019-9512, 9515, 9518, 9511, 9513 and 9516.
    "pings": lambda: PingFrame().serialize() * ANSWERS,
    "settings": lambda: (
        SettingsFrame(settings={SettingsFrame.MAX_CONCURRENT_STREAMS: 100}).serialize() * ANSWERS
    ),
    "empty settings": lambda: SettingsFrame().serialize() * ANSWERS,
    "empty data": lambda: opened(1) + DataFrame(1).serialize() * MANY,
    "windows of a stream": lambda: opened(1) + window(1, 1) * MANY,
    "windows of all": lambda: window(0, 1) * MANY,
    "priorities": lambda: PriorityFrame(1, depends_on=3, stream_weight=16).serialize() * MANY,
    "fields without a name": lambda: head("END_HEADERS", more=bytes(3) * MANY),
    # Floods that break the protocol once.
    "window of all too large": lambda: window(0, LARGEST),
    "first window too large": lambda: SettingsFrame(
        settings={SettingsFrame.INITIAL_WINDOW_SIZE: LARGEST + 1}
    ).serialize(),
    "frame too large": lambda: DataFrame(1, bytes(16385)).serialize(),
    "data of no stream": lambda: DataFrame(1, b"x").serialize(),
    "reset of no stream": lambda: reset(1),
    "stream of the server": lambda: request(2, get(b"/flood")),
    "push": lambda: PushPromiseFrame(1, 2, pack(get(b"/flood")), flags=["END_HEADERS"]).serialize(),
}
"""Floods after which the gateway closes the connection."""

BORNE: dict[str, Callable[[], bytes]] = {
    "bomb of fields": lambda: bomb(b"\x40\x01x"),
    "bomb of cookies": lambda: bomb(b"\x60"),
    "many cookies": lambda: request(1, get(b"/flood", *[(b"cookie", b"a=b")] * 200)),
    "many trailers": lambda: opened(1) + request(1, [(b"x%d" % x, b"a") for x in range(200)]),
    # Causes the maximum number of resets that may be queued for the client.
    "streams beyond the limit": lambda: repeated(opened, 1000),
}
"""Floods whose streams the gateway resets, while the connection stays open."""

FREE: dict[str, Callable[[], bytes]] = {
    "a few resets": lambda: repeated(lambda x: request(x, get(b"/flood")) + reset(x), 50),
    "a few pings": lambda: PingFrame().serialize() * 50,
    "a few windows": lambda: opened(1) + window(1, 1) * 5,
    "a few cookies": lambda: request(1, get(b"/flood", *[(b"cookie", b"a=b")] * 20)),
    "continuations of one head": lambda: head() + rest(pack([(b"x", b"a" * 1000)]), "END_HEADERS"),
    "as many streams as allowed": lambda: repeated(opened, 100),
    # A frame of an unknown type: one byte, type 0x77, no flags, no stream.
    "frames of unknown kinds": lambda: (b"\0\0\1\x77" + bytes(5) + b"x") * MANY,
}
"""Harmless variants, which the gateway accepts."""


@dataclass(frozen=True)
class Aftermath:
    """The result of all floods."""

    ended: dict[str, bool]
    resets: dict[str, int]
    others: list[int]
    record: Record
    grown: int


@pytest.fixture(scope="module")
def target(
    upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gateway, Recorder, dict]]:
    """Yields a separate gateway in front of a recorder, and its HTTP/2 options."""
    recorder, folder = Recorder(upstream.tls), tmp_path_factory.mktemp("flooded")
    # Each connection may reset the default number of streams, a rate that a slow client still exceeds.
    values = merged(upstream.values, {"listener": {"http2": {"resetRate": 1}}})
    with gateway_to([endpoint(recorder.url, recorder.admin)], folder, values) as gateway:
        eventually(lambda: ask(gateway.url, "/").status == 200)
        listeners = yaml.safe_load((folder / "envoy.yaml").read_text())["static_resources"]
        (ingress,) = (x for x in listeners["listeners"] if x["name"] == "ingress")
        manager = ingress["filter_chains"][0]["filters"][0]["typed_config"]
        yield gateway, recorder, manager["http2_protocol_options"]
    recorder.close()


@pytest.fixture(scope="module")
def aftermath(target: tuple[Gateway, Recorder, dict]) -> Aftermath:
    """Runs every flood on a separate connection, followed by a request from another client.

    The connections close at the same time, because Envoy first gives each client a second to close.
    """
    gateway, recorder, _ = target
    recorder.take()
    before, others = peak(gateway), []
    with ExitStack() as stack:
        connections = {}
        for name, make in {**ENDED, **BORNE, **FREE}.items():
            # With a small window, the gateway soon cannot send more data to a client that does not
            # read.
            connection = stack.enter_context(Connection(gateway.url, receive_bytes=4096))
            connections[name] = connection
            connection.send(make())
            others.append(ask(gateway.url, "/other").status)
        for name, connection in connections.items():
            if name in BORNE:
                connection.until(lambda each=connection: each.of(RstStreamFrame))
            connection.settle()
        return Aftermath(
            {name: each.ended for name, each in connections.items()},
            {name: len(each.of(RstStreamFrame)) for name, each in connections.items()},
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
    # The two harmless variants that are complete requests, and the part of floods before their fault.
    seen = [each for each in aftermath.record.requests if b"flood" in each.line]
    assert {each.line for each in seen} == {b"GET /flood HTTP/1.1"}
    assert not [each for each in seen if len(each.data) > 32 * 1024]


def test_memory_stays_within_bounds(aftermath: Aftermath) -> None:
    # A completely unpacked bomb would take eight times as much memory. The three response queues
    # took as much before they were limited. All connections normally use a sixth of the bound.
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
            # The gateway has read the head, so it is in transit to the back end.
            connection.settle()
            connection.send(reset(stream))
        assert connection.ended
    refilled = math.ceil((time.monotonic() - began) * rate)
    assert ask(gateway.url, "/other").status == 200
    seen = recorder.take().data.count(b"POST /flood")
    # The head after the last reset may already be in transit.
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
