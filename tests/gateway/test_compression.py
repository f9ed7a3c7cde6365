"""Compression at the real Envoy, in front of a service that compresses only some replies."""

import gzip
import json
from collections.abc import Iterator

import pytest

from stack import eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Reply, ask
from stack.http_server import Request, serving

TEXT = json.dumps([f"line {number}" for number in range(500)]).encode()
REPLIES = {
    "/": (200, {"content-type": "application/json; charset=utf-8", "etag": '"1"'}, TEXT),
    "/off": (200, {"content-type": "application/json"}, TEXT),
    "/short": (200, {"content-type": "application/json"}, b"[]"),
    "/picture": (200, {"content-type": "image/png"}, TEXT),
    "/part": (206, {"content-type": "text/plain", "content-range": "bytes 0-9/10"}, TEXT),
    "/kept": (200, {"content-type": "text/plain", "cache-control": "no-transform"}, TEXT),
    "/done": (200, {"content-type": "text/plain", "content-encoding": "gzip"}, gzip.compress(TEXT)),
}


def answer(request: Request) -> None:
    """Sends the reply for the path."""
    status, fields, body = REPLIES.get(request.path, (200, {}, b""))
    request.reply(status, *fields.items(), body=body)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Starts a gateway whose /off route does not compress."""
    with serving(answer) as url:
        service = {"service": {"name": "one", "endpoints": [endpoint(url, url)]}}
        off = {"name": "off", "path": {"prefix": "/off"}, "compression": False}
        values = {
            "compression": {"enabled": True},
            "routes": [off | service, {"name": "a"} | service],
        }
        with gateway_to([], tmp_path_factory.mktemp("gateway"), values) as running:
            eventually(lambda: running.counted("cluster.prod-one-http.membership_healthy") == 1)
            yield running


def get(gateway: Gateway, path: str, accepts: str) -> Reply:
    """Sends a request that accepts these codings."""
    return ask(gateway.url, path, headers={"accept-encoding": accepts})


@pytest.mark.parametrize(
    ("accepts", "coding"),
    [("gzip, br", "br"), ("br", "br"), ("gzip", "gzip"), ("br;q=0.5, gzip", "gzip")],
)
def test_a_reply_is_compressed_as_the_client_prefers(
    gateway: Gateway, accepts: str, coding: str
) -> None:
    reply = get(gateway, "/", accepts)
    assert (reply.headers["content-encoding"], reply.headers["etag"]) == (coding, 'W/"1"')
    assert reply.headers["vary"].lower() == "accept-encoding"
    assert len(reply.body) < len(TEXT) / 2
    if coding == "gzip":
        assert gzip.decompress(reply.body) == TEXT


@pytest.mark.parametrize("path", ["/off", "/short", "/picture", "/part", "/kept", "/done"])
def test_other_replies_stay_as_they_are(gateway: Gateway, path: str) -> None:
    status, fields, body = REPLIES[path]
    reply = get(gateway, path, "gzip, br")
    assert (reply.status, reply.body) == (status, body)
    assert reply.headers.get("content-encoding") == fields.get("content-encoding")


@pytest.mark.parametrize("accepts", ["identity", "", "gzip;q=0"])
def test_clients_that_accept_no_coding_get_none(gateway: Gateway, accepts: str) -> None:
    reply = get(gateway, "/", accepts)
    assert (reply.headers.get("content-encoding"), reply.body) == (None, TEXT)
