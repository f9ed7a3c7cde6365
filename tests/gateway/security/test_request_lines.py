"""Request lines: malformed methods, targets and versions (RFC 9112 sections 2 and 3), and the handling of paths."""

import pytest

from stack.replica import STATIC
from support.attacks import HOST, Bench, table
from support.raw import exchange

GET = b"GET /first HTTP/1.1"


def under(line: bytes) -> bytes:
    """Returns a request with this first line."""
    return line + b"\r\n" + HOST + b"\r\n"


@pytest.mark.parametrize(
    "line",
    table(
        (b" GET /first HTTP/1.1",),
        (b"get /first HTTP/1.1",),
        (b"G@T /first HTTP/1.1",),
        (b"G\tT /first HTTP/1.1",),
        (b"FOO /first HTTP/1.1",),
        (b"TRACK /first HTTP/1.1",),
        (b"CONNECT / HTTP/1.1",),
        (b"GET first HTTP/1.1",),
        (b"GET @other/first HTTP/1.1",),
        (b"GET ?x HTTP/1.1",),
        (b"GET * HTTP/1.1",),
        (b"GET /fi rst HTTP/1.1",),
        (b"GET /first\0 HTTP/1.1",),
        (b"GET /fi\rrst HTTP/1.1",),
        (b"GET /fi\x0brst HTTP/1.1",),
        (b"GET /fi\x7frst HTTP/1.1",),
        (b"GET /fi\xffrst HTTP/1.1",),
        (b"GET /first#x HTTP/1.1",),
        (b"GET ftp://gateway/first HTTP/1.1",),
        (b"GET http:///first HTTP/1.1",),
        (b"GET http:/first HTTP/1.1",),
        (b"GET /first http/1.1",),
        (b"GET /first HTTP/3",),
        (b"GET /first HTTP/11",),
        (b"GET /first HTTP/1.10",),
        (b"GET /first HTTP/+1.1",),
        (b"GET /first XTTP/1.1",),
    ),
)
def test_a_bent_line_is_refused(bench: Bench, line: bytes) -> None:
    bench.refuses(under(line))
    bench.passes(under(GET), GET)


@pytest.mark.parametrize(
    ("line", "seen"),
    table(
        (GET, GET),
        (b"\r\n" + GET, GET),
        (b"\n" + GET, GET),
        (GET + b" ", GET),
        (GET + b"\r", GET),
        (b"GET  /first  HTTP/1.1", GET),
        (b"GET\t/first\tHTTP/1.1", GET),
        (b"POST /first HTTP/1.1", b"POST /first HTTP/1.1"),
        (b"OPTIONS /first HTTP/1.1", b"OPTIONS /first HTTP/1.1"),
    ),
)
def test_white_space_between_the_parts_does_not_arrive(
    bench: Bench, line: bytes, seen: bytes
) -> None:
    bench.passes(under(line), seen)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_that_end_without_cr_arrive_with_it(bench: Bench, end: bytes) -> None:
    bench.passes(GET + b"\nhost: gateway" + end + b"x: y\n" + end, GET)


@pytest.mark.parametrize(
    ("line", "host"),
    table(
        (b"GET http://gateway/first HTTP/1.1", b"gateway"),
        (b"GET http://other/first HTTP/1.1", b"other"),
        (b"GET http://other:99/first HTTP/1.1", b"other:99"),
        (b"GET http://user:word@other/first HTTP/1.1", b"other"),
    ),
)
def test_the_host_of_a_whole_url_is_the_only_one(bench: Bench, line: bytes, host: bytes) -> None:
    # RFC 9112 section 3.2.2: the target replaces the Host field.
    (request, _) = bench.passes(under(line), GET).requests
    assert request.values(b"host") == [host]


def test_a_client_cannot_claim_tls(bench: Bench) -> None:
    bench.refuses(under(b"GET https://gateway/first HTTP/1.1"), 403)


def test_methods_that_are_not_served_end_at_the_gateway(bench: Bench) -> None:
    bench.refuses(under(b"CONNECT gateway:443 HTTP/1.1"), 404)
    bench.answers(under(b"TRACE /first HTTP/1.1"), 501)
    bench.answers(under(b"OPTIONS * HTTP/1.1"), 204)


VERSIONS = pytest.mark.parametrize(
    "version", [b" HTTP/0.9", b" HTTP/1.0", b" HTTP/1.2", b" HTTP/2.0", b" HTTP/9.0"]
)
"""Envoy treats all of them as HTTP/1.0."""

HELLO = b"5\r\nhello\r\n0\r\n\r\n"


@VERSIONS
def test_another_version_arrives_as_http_1_1(bench: Bench, version: bytes) -> None:
    lines = HOST + b"connection: keep-alive\r\ncontent-length: 5\r\n\r\n"
    bench.passes(b"POST /first" + version + b"\r\n" + lines + b"hello")


def test_nothing_follows_a_request_without_a_version(bench: Bench) -> None:
    replies, record = bench.send(b"GET /first\r\n")
    assert len(replies) == 1
    assert [each.line for each in record.requests] == [GET]


@VERSIONS
@pytest.mark.parametrize(
    "lines",
    table(
        (b"transfer-encoding: chunked",),
        (b"Transfer-Encoding: Chunked\r\ncorelane-version: HTTP/1.1",),
        (b"transfer-encoding:\tchunked\r\ncorelane-coding:",),
    ),
)
def test_chunks_of_another_version_are_refused(bench: Bench, version: bytes, lines: bytes) -> None:
    # RFC 9112 section 6.1: an HTTP/1.0 proxy in front of the gateway may have found another end.
    lines = HOST + b"connection: keep-alive\r\n" + lines + b"\r\n\r\n"
    bench.refuses(b"POST /first" + version + b"\r\n" + lines + HELLO)
    bench.passes(b"POST /first HTTP/1.1\r\n" + lines + HELLO)


def test_what_tells_the_version_goes_no_further(bench: Bench) -> None:
    claims = b"corelane-version: HTTP/1.0\r\ncorelane-coding: chunked\r\n"
    for version in (b" HTTP/1.0\r\n", b" HTTP/1.1\r\n"):
        lines = HOST + b"connection: keep-alive\r\n" + claims
        (request, _) = bench.passes(b"GET /first" + version + lines + b"\r\n", GET).requests
        assert not request.values(b"corelane-version") + request.values(b"corelane-coding")


def test_the_preface_of_http2_is_no_request(bench: Bench) -> None:
    replies, record = bench.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
    assert not replies
    assert not record.data


def get(path: bytes) -> bytes:
    """Returns a request for an unmodified path."""
    return b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.mark.parametrize(
    "path",
    [
        *(b"/a%2fb", b"/a%2Fb", b"/a%5cb", b"/..%5cb", b"/a/%2E%2E%2Fb", b"/a%00b"),
        *(b"/a#b", b"/a?b#c"),
    ],
)
def test_a_path_with_two_readings_is_refused(bench: Bench, path: bytes) -> None:
    bench.refuses(get(path))


@pytest.mark.parametrize(
    ("path", "seen"),
    table(
        (b"/a/../b", b"/b"),
        (b"/../b", b"/b"),
        (b"/a/..", b"/"),
        (b"/a/./b", b"/a/b"),
        (b"/a/%2e%2e/b", b"/b"),
        (b"/a/.%2E/b", b"/b"),
        (b"/%2e", b"/"),
        (b"/a/..;/b", b"/b"),
        (b"/a/..;x=y/b", b"/b"),
        (b"/a;x/../b", b"/b"),
        (b"/a\\b", b"/a/b"),
        (b"/a\\..\\b", b"/b"),
        (b"//other//b", b"/other/b"),
        # Decoded only once, as in the server.
        (b"/%252e%252e/b", b"/%252e%252e/b"),
        (b"/%c0%ae%c0%ae/b", b"/%c0%ae%c0%ae/b"),
        (b"/.../b", b"/.../b"),
        (b"/a%0d%0ab", b"/a%0d%0ab"),
        (b"/a;x=y/b", b"/a;x=y/b"),
        (b"/a?../b", b"/a?../b"),
        (b'/a<">', b"/a%3C%22%3E"),
        # Known gap: Envoy looks for `..;` before it decodes.
        (b"/a/%2e%2e;/b", b"/a/..;/b"),
    ),
)
def test_a_path_arrives_in_its_normal_form(bench: Bench, path: bytes, seen: bytes) -> None:
    replies, record = bench.send(get(path))
    assert [reply.status for reply in replies] == [200, 200]
    assert record.requests[0].line == b"GET " + seen + b" HTTP/1.1"


ESCAPES = [
    *(b"/static/../Cargo.toml", b"/static/..%2fCargo.toml", b"/static/%2e%2e/Cargo.toml"),
    *(b"/static/..;/Cargo.toml", b"/static/%2e%2e;/Cargo.toml", b"/static/..\\Cargo.toml"),
    *(b"/static/..%5cCargo.toml", b"/static/%252e%252e/Cargo.toml", b"/static//../Cargo.toml"),
    *(b"/static/%252e%252e%252fCargo.toml", b"/static/%c0%ae%c0%ae/Cargo.toml"),
    *(b"/static/....//Cargo.toml", b"/static/.%00./Cargo.toml", b"/static/4k.txt%00.html"),
    *(b"/static/%uff0e%uff0e/Cargo.toml", b"/static//etc/passwd", b"/static/file:///etc/passwd"),
    *(b"/static/" + b"../" * 40 + b"etc/passwd", b"/static/" + b"%2e%2e/" * 40 + b"etc/passwd"),
]


@pytest.mark.parametrize("path", ESCAPES)
def test_no_file_outside_the_static_folder_is_served(bench: Bench, path: bytes) -> None:
    assert (STATIC.parent / "Cargo.toml").exists()
    (reply,) = exchange(bench.served, get(path).replace(HOST, HOST + b"connection: close\r\n"))
    assert reply.status in (400, 404)
    assert b"[package]" not in reply.body
    assert b"root:" not in reply.body


def test_the_static_folder_itself_is_served(bench: Bench) -> None:
    for path in (
        b"/static/4k.txt",
        b"/static/./x/../4k.txt",
        b"/static/%34k.txt",
        b"//static//4k.txt",
    ):
        (reply,) = exchange(bench.served, get(path).replace(HOST, HOST + b"connection: close\r\n"))
        assert (reply.status, len(reply.body)) == (200, 4096), path
