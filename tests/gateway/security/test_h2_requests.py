"""HTTP/2 requests that would turn into one or two different HTTP/1.1 requests (RFC 9113 section 8)."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from stack import eventually
from stack.gateway import endpoint, gateway_to, merged
from stack.http import ask
from support.attacks import Bench, Upstream
from support.http2 import Connection, get, request
from support.recorder import Record

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: gateway\r\n\r\n"


def post(*more: tuple[bytes, bytes]) -> list:
    """Returns the fields of a POST."""
    return get(b"/first", *more, method=b"POST")


def but(**changed: bytes | None) -> list:
    """Returns the fields of a GET with different pseudo-fields. None omits a field."""
    fields = [(name, changed.get(name[1:].decode(), value)) for name, value in get()]
    return [(name, value) for name, value in fields if value is not None]


ENDED = {
    # Conflicting or invalid lengths, in all forms.
    "length without data": (post((b"content-length", b"5")),),
    **{
        f"length {value!r}": (post((b"content-length", value)), b"hello")
        for value in (b"-5", b"+5", b"5, 5", b"0x5", b"", b"5 ", b"9" * 40, b"18446744073709551621")
    },
    "length twice": (post((b"content-length", b"5"), (b"content-length", b"5")), b"hello"),
    "lengths differ": (post((b"content-length", b"5"), (b"content-length", b"3")), b"hello"),
    **{
        f"coding {value!r}": (post((b"transfer-encoding", value)), b"0\r\n\r\n" + SMUGGLED)
        for value in (b"chunked", b"identity", b"xchunked", b"")
    },
    # Lines within names and values.
    **{
        f"field {name!r} {value!r}": (get(b"/first", (name, value)),)
        for name, value in (
            *(
                (b"x", b"a\r\nb: c"),
                (b"x", b"a\r\n\r\n" + SMUGGLED),
                (b"x", b"a\nb"),
                (b"x", b"a\rb"),
            ),
            *((b"x", b"a\0b"), (b"x", b"\x01"), (b"x", b"\x7f"), (b"x\r\ny: z", b"a")),
            *(
                (b"x y", b"a"),
                (b"x:y", b"a"),
                (b"x: y\r\nz", b"a"),
                (b"x\0", b"a"),
                (b"x\xe9", b"a"),
            ),
            *((b"X", b"a"), (b"", b"a")),
            # Hop-by-hop fields.
            *((b"connection", b"close"), (b"keep-alive", b"1"), (b"proxy-connection", b"close")),
            *((b"upgrade", b"h2c"), (b"te", b"gzip")),
            # Pseudo-fields that are duplicate, unknown, or for responses.
            *((b":path", b"/second"), (b":method", b"POST"), (b":authority", b"other")),
            *((b":scheme", b"https"), (b":status", b"200"), (b":foo", b"a")),
            (b":protocol", b"websocket"),
        )
    },
    **{
        f"path {value!r}": (but(path=value),)
        for value in (
            *(
                b"",
                b"first",
                b"*",
                b"/fi rst",
                b"/first HTTP/1.1\r\nx: y",
                b"/first\r\n",
                b"/first\0",
            ),
            *(b"/fi\trst", b"http://other/first"),
        )
    },
    **{
        f"method {value!r}": (but(method=value),)
        for value in (b"", b"GET ", b"GET / HTTP/1.1\r\nx:", b"G\0T", b"G@T", b"CONNECT")
    },
    **{
        f"authority {value!r}": (but(authority=value),)
        for value in (*(None, b"", b"a b", b"a\r\nx: y", b"a/x", b"u@a", b"a#b", b"a?b", b"a\\b"),)
    },
    **{
        f"scheme {value!r}": (but(scheme=value),)
        for value in (None, b"", b"http\r\n", b"http://other/")
    },
    "no path": (but(path=None),),
    "no method": (but(method=None),),
    "two hosts": ([*but(authority=None), (b"host", b"a"), (b"host", b"b")],),
    "pseudo-field behind others": ([(b"x", b"a"), *get()],),
    "websocket": ([(b":method", b"CONNECT"), (b":protocol", b"websocket"), *get()[1:]],),
}
"""The gateway closes the connection, because its client violates HTTP/2."""

RESET = {
    "length too long": (post((b"content-length", b"9")), b"hello"),
    "length too short": (post((b"content-length", b"3")), b"hello"),
    "length 0 before a request": (post((b"content-length", b"0")), SMUGGLED),
    "field x_y": (get(b"/first", (b"x_y", b"a")),),
    "field transfer_encoding": (get(b"/first", (b"transfer_encoding", b"chunked")),),
}
"""The gateway resets the stream, and the connection stays open."""

ANSWERED = {
    "escaped slash": (400, but(path=b"/a%2fb")),
    "fragment": (400, but(path=b"/first#x")),
    "two hosts in one": (400, but(authority=b"a,b")),
    "trace": (501, but(method=b"TRACE")),
    "connect": (404, [(b":method", b"CONNECT"), (b":authority", b"gateway:443")]),
}
"""The gateway responds with this status."""

PASSED = {
    "a body of one known length": (
        (post((b"content-length", b"5")), b"hello"),
        b"POST /first HTTP/1.1",
        b"hello",
    ),
    "a body of unknown length": ((post(), b"hel", b"lo"), b"POST /first HTTP/1.1", b"hello"),
    "a body like a request": ((post(), SMUGGLED), b"POST /first HTTP/1.1", SMUGGLED),
    "trailers in te": ((get(b"/first", (b"te", b"trailers")),), b"GET /first HTTP/1.1", b""),
    "octets beyond ascii": ((get(b"/first", (b"x", b"\xe9")),), b"GET /first HTTP/1.1", b""),
    "another host": ((get(b"/first", (b"host", b"other")),), b"GET /first HTTP/1.1", b""),
    "host only": (
        ([*but(authority=None), (b"host", b"gateway")],),
        b"GET /first HTTP/1.1",
        b"",
    ),
    "dots": ((but(path=b"//a/../first"),), b"GET /first HTTP/1.1", b""),
}
"""Harmless variants of rejected requests: the back end receives this line and body."""

Outcomes = dict[str, tuple[int | str, int | str]]


def outcomes_of(url: str, requests: dict[str, tuple]) -> Outcomes:
    """Returns the outcome of each request and of the next one on its connection.

    All connections are open at once, because Envoy takes a second to close a connection that
    violates HTTP/2.
    """
    with ExitStack() as stack:
        connections = {}
        for name, (fields, *data) in requests.items():
            connections[name] = stack.enter_context(Connection(url))
            connections[name].send(request(1, fields, *data) + request(3, get(b"/final")))
        return {name: (each.outcome(1), each.outcome(3)) for name, each in connections.items()}


@pytest.fixture(scope="module")
def refused(bench: Bench) -> tuple[Outcomes, Record]:
    """Returns the outcomes of all rejected requests, and the data that the back end received."""
    requests = {**ENDED, **RESET, **{name: row[1:] for name, row in ANSWERED.items()}}
    bench.recorder.take()
    return outcomes_of(bench.url, requests), bench.record()


@pytest.mark.parametrize("name", ENDED)
def test_what_is_no_http2_ends_the_connection(refused: tuple[Outcomes, Record], name: str) -> None:
    assert refused[0][name] == ("ended", "ended")


@pytest.mark.parametrize("name", RESET)
def test_a_request_that_contradicts_itself_is_reset(
    refused: tuple[Outcomes, Record], name: str
) -> None:
    assert refused[0][name] == ("reset", 200)


@pytest.mark.parametrize("name", ANSWERED)
def test_the_gateway_answers_what_it_does_not_pass(
    refused: tuple[Outcomes, Record], name: str
) -> None:
    status, next_one = refused[0][name]
    assert status == ANSWERED[name][0]
    assert next_one in (200, "ended")


def whole(record: Record) -> list[bytes]:
    """Returns the lines of the requests that reached the back end completely.

    Before the gateway resets a stream because of its body, it may have sent the head, but no more.
    With a length of 0, such a head is a complete request and contains everything that its client
    announced.
    """
    assert not record.unclear
    assert b"smuggled" not in record.data
    heads = [each for each in record.requests if each.values(b"content-length") == [b"0"]]
    assert [each.line for each in heads] in ([], [b"POST /first HTTP/1.1"])
    return [each.line for each in record.requests if each not in heads]


def test_the_back_end_sees_no_request_of_all_these(refused: tuple[Outcomes, Record]) -> None:
    outcomes, record = refused
    answered = sum(last == 200 for _, last in outcomes.values())
    assert whole(record) == [b"GET /final HTTP/1.1"] * answered


@pytest.mark.parametrize("name", PASSED)
def test_the_neighbours_pass_as_one_request(bench: Bench, name: str) -> None:
    (fields, *data), line, body = PASSED[name]
    bench.recorder.take()
    with Connection(bench.url) as connection:
        connection.send(request(1, fields, *data))
        assert connection.outcome(1) == 200
        connection.send(request(3, get(b"/final")))
        assert connection.outcome(3) == 200
    first, final = bench.record().requests
    assert (first.line, first.body, first.values(b"host")) == (line, body, [b"gateway"])
    assert final.line == b"GET /final HTTP/1.1"
    with Connection(bench.served) as connection:
        connection.send(request(1, fields, *data) + request(3, get(b"/hello")))
        assert [connection.outcome(1), connection.outcome(3)] == [404, 200]


def test_behind_a_proxy_a_bad_request_ends_alone(
    bench: Bench, upstream: Upstream, tmp_path: Path
) -> None:
    """Behind a proxy, many clients share a connection, so a single bad request does not close it."""
    requests, recorder = {**ENDED, **RESET}, bench.recorder
    behind = merged(upstream.values, {"listener": {"trustedHops": 1}})
    with gateway_to([endpoint(recorder.url, recorder.admin)], tmp_path, values=behind) as gateway:
        eventually(lambda: ask(gateway.url, "/").status == 200)
        recorder.take()
        assert outcomes_of(gateway.url, requests) == dict.fromkeys(requests, ("reset", 200))
        assert ask(gateway.url, "/last").status == 200
        lines = set(whole(recorder.take()))
        assert lines == {b"GET /final HTTP/1.1", b"GET /last HTTP/1.1"}
        # Many of these requests form a flood, like many resets. Envoy checks every 64 KiB.
        with Connection(gateway.url) as connection:
            bad = get(b"/flood", (b"X", b"a"))
            connection.send(b"".join(request(2 * x + 1, bad) for x in range(4000)))
            connection.settle()
            assert connection.ended
