"""Requests with oversized lines, fields, bodies or chunks."""

import pytest

from stack.rendering import default_values
from support.attacks import HOST, Bench
from support.raw import exchange

LIMITS = default_values("gateway")["listener"]
KIB, COUNT, BODY = LIMITS["headers"]["kib"] * 1024, LIMITS["headers"]["count"], LIMITS["bodyBytes"]

GET = b"GET /first HTTP/1.1"
CHUNKED = b"POST /first HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n"


def get(lines: bytes = b"", line: bytes = GET) -> bytes:
    """Returns a request with these field lines, each with its line end."""
    return line + b"\r\n" + HOST + lines + b"\r\n"


def fields(count: int, size: int = 1) -> bytes:
    """Returns this many fields with values of this length."""
    return b"".join(b"x%d: %b\r\n" % (index, b"a" * size) for index in range(count))


LARGE = {
    "path": (
        get(line=b"GET /" + b"a" * (KIB + 1) + b" HTTP/1.1"),
        get(line=b"GET /" + b"a" * (KIB - 1000) + b" HTTP/1.1"),
    ),
    "path of many times the limit": (
        get(line=b"GET /" + b"a" * 10 * KIB + b" HTTP/1.1"),
        get(line=b"GET /?" + b"a" * (KIB - 1000) + b" HTTP/1.1"),
    ),
    "method": (b"G" * (KIB + 1) + b" / HTTP/1.1\r\n" + HOST + b"\r\n", get()),
    "no line at all": (b"G" * 10 * KIB, get()),
    "value": (get(b"x: " + b"a" * KIB + b"\r\n"), get(b"x: " + b"a" * (KIB - 1000) + b"\r\n")),
    "name": (get(b"x" * KIB + b": a\r\n"), get(b"x" * (KIB - 1000) + b": a\r\n")),
    "line that is no field": (get(b"x" * KIB + b"\r\n"), get()),
    # Host is one of them.
    "count": (get(fields(COUNT)), get(fields(COUNT - 1))),
    "count of many times the limit": (get(fields(50 * COUNT)), get(fields(COUNT - 1))),
    "cookies": (get(b"cookie: a=b\r\n" * COUNT), get(b"cookie: a=b\r\n" * (COUNT - 1))),
    "sum": (get(fields(KIB // 1000 + 2, 1000)), get(fields(KIB // 1000 - 2, 1000))),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_head_is_refused(bench: Bench, name: str) -> None:
    bad, good = LARGE[name]
    replies, record = bench.send(bad)
    assert [reply.status for reply in replies] == [431]
    assert not record.data
    replies, record = bench.send(good)
    assert [reply.status for reply in replies] == [200, 200]
    assert [len(each.values(b"host")) for each in record.requests] == [1, 1]


@pytest.mark.parametrize("size", [BODY + 1, 2**63 - 1, 2**63])
def test_a_length_beyond_the_limit_is_refused_unseen(bench: Bench, size: int) -> None:
    length = b"POST /first HTTP/1.1\r\n" + HOST + b"content-length: %d\r\n\r\n" % size
    bench.refuses(length, 413)


def test_a_body_beyond_the_limit_is_cut(bench: Bench) -> None:
    bench.cuts(CHUNKED + b"%x\r\n" % (BODY + 1) + b"x" * (BODY + 1) + b"\r\n0\r\n\r\n", 413)
    close = CHUNKED.replace(HOST, HOST + b"connection: close\r\n")
    (reply,) = exchange(bench.served, close + b"%x\r\n" % BODY + b"x" * BODY + b"\r\n0\r\n\r\n")
    assert reply.replica == "test"


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (b"x: y\r\n" * (KIB // 4), b"x: y\r\n" * COUNT),
        (b"x: " + b"y" * KIB + b"\r\n", b"x: " + b"y" * (KIB - 1000) + b"\r\n"),
    ],
    ids=["many", "long"],
)
def test_large_trailers_are_refused(bench: Bench, bad: bytes, good: bytes) -> None:
    bench.cuts(CHUNKED + b"5\r\nhello\r\n0\r\n" + bad + b"\r\n", 431)
    bench.arrives(CHUNKED + b"5\r\nhello\r\n0\r\n" + good + b"\r\n", b"POST /first HTTP/1.1 hello")


@pytest.mark.parametrize(
    "chunks",
    [
        b"1\r\nx\r\n" * 20_000,
        b"1;" + b"a" * 2_000_000 + b"\r\nx\r\n",
        (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 2_000,
    ],
    ids=["many", "one long extension", "many extensions"],
)
def test_chunks_arrive_as_few_and_without_extensions(bench: Bench, chunks: bytes) -> None:
    body = b"x" * chunks.count(b"\r\nx\r\n")
    # Skips the real server, which responds and closes the connection before it has read everything.
    record = bench.arrives(CHUNKED + chunks + b"0\r\n\r\n", b"POST /first HTTP/1.1 " + body)
    # The data for the back end grow only with the body, by less than half of its size.
    assert len(record.data) < 1.5 * len(body) + 2000


def test_empty_lines_before_a_request_do_not_arrive(bench: Bench) -> None:
    record = bench.passes(b"\r\n" * 50_000 + get(), GET)
    assert len(record.data) < 2000
