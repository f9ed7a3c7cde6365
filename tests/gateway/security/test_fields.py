"""Header fields: injected lines, malformed names, several hosts, and hop-by-hop fields."""

import pytest

from support.attacks import HOST, Bench, table

GET = b"GET /first HTTP/1.1"


def get(lines: bytes, host: bytes = HOST) -> bytes:
    """Returns a request with these field lines."""
    return GET + b"\r\n" + host + lines + (b"\r\n" if lines else b"") + b"\r\n"


@pytest.mark.parametrize(
    ("bad", "good"),
    table(
        (b"X: a\0b", b"X: a b"),
        (b"X: a\nb", b"X: a\nb:"),
        (b"X: a\x0bb", b"X: a\tb"),
        (b"X: \x01", b"X: \xe9"),
        (b"X: \x7f", b"X: ~"),
        (b"X: \x1b[0m", b"X: [0m"),
        (b"X\0: a", b"X: a"),
        (b"X\r: a", b"X: a"),
        (b"X Y: a", b"X-Y: a"),
        (b": a", b"x: a"),
        (b"X", b"X:"),
        (b"X=1", b"X:=1"),
        (b"X : a", b"X:  a"),
        (b"X\t: a", b"X:\ta"),
        (b" X: a", b"X: a"),
        (b"x_y: a", b"x-y: a"),
        (b"X\xe9: a", b"X: a"),
        (b"X(: a", b"X!: a"),
        (b'"X": a', b"'X': a"),
        (b"X/Y: a", b"X.Y: a"),
        (b":path: /other", b"path: /other"),
        (b":authority: other", b"authority: other"),
    ),
)
def test_a_bent_field_is_refused(bench: Bench, bad: bytes, good: bytes) -> None:
    bench.refuses(get(bad))
    bench.passes(get(good), GET)


@pytest.mark.parametrize(
    ("lines", "value"),
    table(
        (b"X: a\rb", b"ab"),
        (b"X: a\r\r\nY: b", b"a"),
        (b"X: a\r\n b", b"a b"),
        (b"X: a\r\n\tb: c", b"a\tb: c"),
        (b"X: a\n b", b"a b"),
        (b"X:: a", b": a"),
    ),
)
def test_line_ends_do_not_arrive_in_a_value(bench: Bench, lines: bytes, value: bytes) -> None:
    # RFC 9112, sections 2.2 and 5.2: the gateway rejects or removes a bare CR and a folded line.
    (request, _) = bench.passes(get(lines), GET).requests
    assert request.values(b"x") == [value]


@pytest.mark.parametrize(
    ("bad", "good"),
    table(
        (b"", b"host: gateway\r\n"),
        (b"X: y\r\n", b"X: y\r\nHost: gateway\r\n"),
        (b"Host: gateway, other\r\n", b"Host: gateway.other\r\n"),
        (b"Host: a b\r\n", b"Host: a-b\r\n"),
        (b"Host: gate\tway\r\n", b"Host:\tgateway\r\n"),
        (b"Host: gateway/x\r\n", b"Host: gateway\r\n"),
        (b"Host: gateway?x\r\n", b"Host: gateway:80\r\n"),
        (b"Host: gateway#x\r\n", b"Host: gateway\r\n"),
        (b"Host: gateway\\x\r\n", b"Host: gateway\r\n"),
        (b"Host: gateway\0\r\n", b"Host: gateway\r\n"),
        (b"Host: \xff\r\n", b"Host: [::1]:80\r\n"),
        (b" Host: gateway\r\n", b"Host: gateway\r\n"),
        (b"Host : gateway\r\n", b"Host: gateway \r\n"),
    ),
)
def test_a_bent_host_is_refused(bench: Bench, bad: bytes, good: bytes) -> None:
    bench.refuses(get(b"", bad))
    bench.passes(get(b"", good), GET)


@pytest.mark.parametrize("second", [b"gateway", b"other"])
def test_two_hosts_are_refused(bench: Bench, second: bytes) -> None:
    # RFC 9112 section 3.2; Envoy joins the two lines with a comma, and the route rejects the result.
    bench.refuses(get(b"Host: " + second))
    bench.passes(get(b"", b"Host: " + second + b"\r\n"), GET)


@pytest.mark.parametrize(
    "value", [b"", b"gate@way", b"gateway:99999", b"gateway:x", b"[::1", b"gateway:80:80"]
)
def test_a_host_that_envoy_lets_pass_leads_nowhere_else(bench: Bench, value: bytes) -> None:
    replies, record = bench.send(get(b"", b"Host: " + value + b"\r\n"))
    assert [reply.status for reply in replies] == [200, 200]
    (request, _) = record.requests
    assert request.values(b"host") == [value]


@pytest.mark.parametrize(
    "lines",
    table(
        (
            b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        ),
        (b"Connection: Upgrade\r\nUpgrade: H2C",),
        (b"Upgrade: h2c",),
        (b"Upgrade: websocket",),
        (b"Connection: Upgrade\r\nUpgrade: TLS/1.2",),
        (b"Connection: Upgrade\r\nUpgrade: foo, h2c",),
        (b"Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13",),
        (b"Connection: keep-alive, X-Only\r\nX-Only: 1",),
        (b"Connection: X-Only\r\nX-Only: 1\r\nKeep-Alive: 1\r\nProxy-Connection: 1",),
        (b"Connection: TE\r\nTE: trailers",),
    ),
)
def test_what_is_for_one_connection_ends_there(bench: Bench, lines: bytes) -> None:
    (request, _) = bench.passes(get(lines), GET).requests
    for name in (b"upgrade", b"http2-settings", b"x-only", b"connection", b"keep-alive"):
        assert not request.values(name)


@pytest.mark.parametrize(
    "line",
    table(
        (b"Accept: application/none",),
        (b"Prefer: respond-async",),
        (b"Range: lines=1",),
        (b"TE: gzip",),
        (b"Sec-WebSocket-Extensions: none",),
    ),
)
def test_an_offer_is_no_demand(bench: Bench, line: bytes) -> None:
    bench.passes(get(line), GET)


@pytest.mark.parametrize(
    "lines",
    table(
        (b"Connection: close, Host",),
        (b"Connection: X-Forwarded-For",),
        (b"Connection: X-Forwarded-Proto",),
    ),
)
def test_a_removal_that_would_mislead_is_refused(bench: Bench, lines: bytes) -> None:
    bench.refuses(get(lines))


def test_clients_cannot_speak_for_the_gateway(bench: Bench) -> None:
    names = [b"internal", b"original-path", b"upstream-rq-timeout-ms", b"retry-on", b"max-retries"]
    names += [b"expected-rq-timeout-ms"]
    lines = [b"x-envoy-%b: 1" % name for name in names]
    lines += [b"X-Forwarded-For: 10.0.0.1", b"X-Forwarded-Proto: https"]
    (request, _) = bench.passes(get(b"\r\n".join(lines)), GET).requests
    assert not [x for x in names if request.values(b"x-envoy-" + x)]
    # The last address and the scheme are those that the gateway saw.
    assert request.values(b"x-forwarded-for")[0].startswith(b"10.0.0.1,")
    assert request.values(b"x-forwarded-proto") == [b"http"]


@pytest.mark.parametrize(
    ("expect", "answers"),
    table(
        (b"Expect: 100-continue", [100, 200, 200]),
        (b"Expect: 100-continue\r\nExpect: 100-continue", [200, 200]),
        (b"Expect: 200-ok", [200, 200]),
    ),
)
def test_expectations_do_not_move_the_end_of_a_request(
    bench: Bench, expect: bytes, answers: list[int]
) -> None:
    data = b"POST /first HTTP/1.1\r\n" + HOST + expect + b"\r\ncontent-length: 5\r\n\r\nhello"
    replies, record = bench.send(data)
    assert [reply.status for reply in replies] == answers
    assert [each.body for each in record.requests] == [b"hello", b""]
    assert not record.unclear
