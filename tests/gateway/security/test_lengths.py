"""The end of a request: ambiguous lengths and malformed chunks (RFC 9112 sections 7.1 and 11.2)."""

import pytest

from support.attacks import HOST, Bench, table

CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"

# One reader sees a complete request; another also sees GET /smuggled after it.
INNER = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"


def post(lines: bytes, body: bytes) -> bytes:
    """Returns a request whose `lines` define its length."""
    return b"POST /first HTTP/1.1\r\n" + HOST + lines + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "lines",
    [
        b"content-length: %d\r\ntransfer-encoding: chunked" % len(b"0\r\n\r\n" + INNER),
        b"transfer-encoding: chunked\r\ncontent-length: %d" % len(b"0\r\n\r\n" + INNER),
        b"content-length: 5\r\nTransfer-Encoding: xchunked",
        b"content-length: 5\r\nTransfer-Encoding:",
        b"content-length: 0\r\ntransfer-encoding: identity",
    ],
)
def test_two_lengths_are_refused(bench: Bench, lines: bytes) -> None:
    bench.refuses(post(lines, b"0\r\n\r\n" + INNER))
    bench.passes(post(b"transfer-encoding: chunked", CHUNKED))


def test_the_back_end_reads_the_length_that_the_gateway_read(bench: Bench) -> None:
    # TE.CL: a reader that uses lengths would end the body after its first line.
    bench.refuses(post(b"content-length: 4\r\ntransfer-encoding: chunked", b"24\r\n" + INNER))
    bench.passes(
        post(b"content-length: %d" % len(b"0\r\n\r\n" + INNER), b"0\r\n\r\n" + INNER),
        b"POST /first HTTP/1.1 0\r\n\r\n" + INNER,
    )
    # CL.0: a body that a reader might not expect stays a body.
    bench.passes(
        b"GET /first HTTP/1.1\r\n" + HOST + b"content-length: %d\r\n\r\n" % len(INNER) + INNER,
        b"GET /first HTTP/1.1 " + INNER,
    )
    # Without a length, the following data are the next request, and both readers agree.
    bench.passes(
        post(b"content-length: 0", b"GET /second HTTP/1.1\r\n" + HOST + b"\r\n"),
        b"POST /first HTTP/1.1",
        b"GET /second HTTP/1.1",
    )


@pytest.mark.parametrize(
    ("lines", "status"),
    table(
        (b"Transfer-Encoding: xchunked", 501),
        (b"Transfer-Encoding: chunk", 501),
        (b"Transfer-Encoding: identity", 501),
        (b"Transfer-Encoding: chunked, identity", 501),
        (b"Transfer-Encoding: identity, chunked", 501),
        (b"Transfer-Encoding: gzip, chunked", 501),
        (b"Transfer-Encoding: chunked, chunked", 501),
        (b"Transfer-Encoding: ,chunked", 501),
        (b"Transfer-Encoding: chunked,", 501),
        (b"Transfer-Encoding:", 501),
        (b'Transfer-Encoding: "chunked"', 501),
        (b"Transfer-Encoding: chunked;q=1", 501),
        (b"Transfer-Encoding: chun\xeaked", 501),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 501),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", 501),
        (b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked", 501),
        (b"Transfer-Encoding : chunked", 400),
        (b"Transfer-Encoding\t: chunked", 400),
        (b" Transfer-Encoding: chunked", 400),
        (b"Transfer-Encoding: \x0bchunked", 400),
        (b"Transfer-Encoding: chunked\0", 400),
        (b"Transfer_Encoding: chunked", 400),
    ),
)
def test_an_unknown_coding_is_refused(bench: Bench, lines: bytes, status: int) -> None:
    bench.refuses(post(lines, CHUNKED), status)


@pytest.mark.parametrize(
    "lines",
    table(
        (b"Transfer-Encoding: chunked",),
        (b"TRANSFER-ENCODING: CHUNKED",),
        (b"transfer-encoding:chunked",),
        (b"Transfer-Encoding:\tchunked",),
        (b"Transfer-Encoding: chunked ",),
        (b"Transfer-Encoding:\r\n chunked",),
        (b"X: y\nTransfer-Encoding: chunked",),
        (b"TE: chunked\r\nTransfer-Encoding: chunked",),
        (b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",),
    ),
)
def test_one_coding_arrives_in_its_plain_form(bench: Bench, lines: bytes) -> None:
    (request, _) = bench.passes(post(lines, CHUNKED)).requests
    assert request.values(b"transfer-encoding") == [b"chunked"]


@pytest.mark.parametrize(
    "lines",
    [
        b"X: y\r\n Transfer-Encoding: chunked",
        b"\nTransfer-Encoding: chunked",
        b"X: y\rTransfer-Encoding: chunked",
    ],
)
def test_a_coding_in_another_field_ends_the_request(bench: Bench, lines: bytes) -> None:
    replies, record = bench.send(post(lines, CHUNKED))
    # The bytes of the supposed body are not a request.
    assert [reply.status for reply in replies] == [200, 400]
    (request,) = record.requests
    assert (request.body, request.data) == (b"", record.data)


@pytest.mark.parametrize(
    "value",
    [
        *(b"5\r\nContent-Length: 5", b"5\r\nContent-Length: 6", b"6\r\nContent-Length: 5"),
        *(b"0\r\nContent-Length: 5", b"5\nContent-Length: 6", b"5, 5", b"5, 6", b"5 5"),
        *(b"-5", b"+5", b"0x5", b"5;", b"5.0", b"5e0", b"five", b"", b" ", b"5\0", b"\x0b5"),
        *(b"18446744073709551616", b"18446744073709551621", b"9" * 40),
    ],
)
def test_a_length_that_is_no_number_is_refused(bench: Bench, value: bytes) -> None:
    bench.refuses(post(b"Content-Length: " + value, b"hello"))


@pytest.mark.parametrize(
    "line", [b"Content-Length : 5", b" Content-Length: 5", b"Content_Length: 5"]
)
def test_a_length_in_a_bent_field_is_refused(bench: Bench, line: bytes) -> None:
    bench.refuses(post(line, b"hello"))


@pytest.mark.parametrize(
    "line",
    [
        *(b"Content-Length: 5", b"content-length:5", b"Content-Length: 5 ", b"CONTENT-LENGTH: 05"),
        *(b"Content-Length:\r\n 5", b"Connection: Content-Length\r\nContent-Length: 5"),
    ],
)
def test_one_length_arrives_as_one(bench: Bench, line: bytes) -> None:
    bench.passes(post(line, b"hello"))


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
        # 2^64 + 5, which becomes 5 if digits are dropped.
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
    # The gateway forwards neither extensions nor trailers.
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
    # RFC 9112 allows no line end within quotes: the line ends, and these five bytes are the chunk.
    bench.passes(HEAD + b'5;x="\r\n"\r\nhe\r\n0\r\n\r\n', b'POST /first HTTP/1.1 "\r\nhe')
