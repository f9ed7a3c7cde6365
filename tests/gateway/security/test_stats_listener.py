"""The filter in front of Envoy's admin interface, and tricks that must not bypass it. All requests
go to one gateway, which keeps running.
"""

import re

import pytest

from stack.http import ask
from support.attacks import HOST, Bench, table
from support.raw import connect, exchange, until_end

CLOSE = HOST + b"connection: close\r\n\r\n"
INNER = b"POST /quitquitquit HTTP/1.1\r\n" + CLOSE


@pytest.mark.parametrize(
    "line",
    table(
        (b"POST /quitquitquit",),
        (b"POST /ready",),
        (b"POST /stats/prometheus",),
        (b"POST /stats/prometheus/../../quitquitquit",),
        (b"POST /ready%2f..%2fquitquitquit",),
        (b"POST http://127.0.0.1/quitquitquit",),
        (b"POST //quitquitquit",),
        (b"GET /stats",),
        (b"GET /config_dump",),
        (b"GET /stats/prometheus/",),
        (b"GET /stats/prometheus;/../../config_dump",),
        (b"GET /stats/prometheus/../../config_dump",),
        (b"GET /stats/./prometheus",),
        (b"GET /%72eady",),
        (b"GET //ready",),
        (b"GET /READY",),
    ),
)
def test_only_two_paths_lead_to_the_admin_interface(bench: Bench, line: bytes) -> None:
    (reply,) = exchange(bench.stats, line + b" HTTP/1.1\r\n" + CLOSE)
    assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")
    assert ask(bench.stats, "/ready").status == 200


@pytest.mark.parametrize(
    ("lengths", "status"),
    [
        (b"content-length: %d" % len(INNER), b"200"),
        (b"content-length: 0\r\ntransfer-encoding: chunked", b"400"),
        (b"content-length: 0\r\ncontent-length: %d" % len(INNER), b"400"),
    ],
)
def test_a_request_in_a_body_is_none(bench: Bench, lengths: bytes, status: bytes) -> None:
    head = b"GET /ready HTTP/1.1\r\n" + HOST + b"connection: close\r\n" + lengths + b"\r\n\r\n"
    with connect(bench.stats) as connection:
        connection.sendall(head + INNER)
        received = until_end(connection)
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == [status]
    assert ask(bench.stats, "/ready").status == 200
