"""Chunked bodies whose chunks, extensions or trailers are malformed (RFC 9112 section 7.1)."""

import pytest

from support.attacks import HOST, Bench, table

HEAD = b"POST /first HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n"
LAST = b"\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("bad", "good"),
    table(
        (b"5\nhello\r\n0\r\n\r\n", b"5" + LAST),
        (b"5;x\nhello\r\n0\r\n\r\n", b"5;x" + LAST),
        (b"5;x\ny" + LAST, b"5;x=y" + LAST),
        (b"5;x\ry" + LAST, b"5;xy" + LAST),
        (b"5\rhello\r\n0\r\n\r\n", b"5" + LAST),
        (b"5\r\nhello\n0\r\n\r\n", b"5" + LAST),
        (b"5\r\nhello0\r\n\r\n", b"5" + LAST),
        (b"5\r\nhelloXX0\r\n\r\n", b"5" + LAST),
        (b"5\r\nhello\r\r\n0\r\n\r\n", b"5" + LAST),
        (b"0x5" + LAST, b"05" + LAST),
        (b"+5" + LAST, b"5" + LAST),
        (b"-5" + LAST, b"5" + LAST),
        (b" 5" + LAST, b"5 " + LAST),
        (b"\r\n5" + LAST, b"5\t" + LAST),
        (b"g" + LAST, b"5" + LAST),
        (b"5h" + LAST, b"5;h" + LAST),
        # 2^64 + 5, which is 5 where digits are dropped.
        (b"10000000000000005" + LAST, b"00000000000000005" + LAST),
        (b"5\r\nhello\r\n0\n\n", b"5\r\nhello\r\n00\r\n\r\n"),
        (b"5\r\nhello\r\n0\r\nx : y\r\n\r\n", b"5\r\nhello\r\n0\r\nx: y\r\n\r\n"),
        (b"5\r\nhello\r\n0\r\nx\r\n\r\n", b"5\r\nhello\r\n0\r\nx:\r\n\r\n"),
        (
            b"5\r\nhello\r\n0\r\nx: a\nGET /smuggled HTTP/1.1\r\n\r\n",
            b"5\r\nhello\r\n0\r\nx: GET /smuggled HTTP/1.1\r\n\r\n",
        ),
    ),
)
def test_a_malformed_chunk_ends_the_request(bench: Bench, bad: bytes, good: bytes) -> None:
    bench.cuts(HEAD + bad)
    record = bench.passes(HEAD + good)
    # Neither extensions nor trailers are sent on.
    assert b"smuggled" not in record.data
    assert b"5\r\nhello\r\n0\r\n\r\n" in record.data


@pytest.mark.parametrize(
    "trailer",
    [b"Content-Length: 98765", b"Transfer-Encoding: gzip", b"Host: other", b"X: y-y-y"],
)
def test_trailers_end_at_the_gateway(bench: Bench, trailer: bytes) -> None:
    record = bench.passes(HEAD + b"5\r\nhello\r\n0\r\n" + trailer + b"\r\n\r\n")
    assert trailer.partition(b": ")[2] not in record.data


def test_extensions_with_line_ends_in_quotes_have_one_reading(bench: Bench) -> None:
    # RFC 9112 has no line end within quotes: the line ends, and these five bytes are the chunk.
    bench.passes(HEAD + b'5;x="\r\n"\r\nhe\r\n0\r\n\r\n', b'POST /first HTTP/1.1 "\r\nhe')
