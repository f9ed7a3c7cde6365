"""Requests through the Envoys that Envoy Gateway configures, to real replicas."""

import json
import ssl
import urllib.request
from typing import Any

import pytest

from support import eventually
from support.client import Client, ask

PROBLEM = "application/problem+json"


def test_replicas_take_turns_and_tell_clients_nothing_of_their_load(platform: Any) -> None:
    client = Client(platform.urls["plain"])
    seen = set()

    def both() -> bool:
        reply = client.ask("/hello")
        assert reply.status == 200
        assert not [name for name in reply.headers if name.startswith(("endpoint-load", "x-envoy"))]
        seen.add(reply.replica)
        return seen == {"127.0.0.2", "127.0.0.3"}

    # A replica gets requests when its first health check is done.
    eventually(both)
    client.close()


@pytest.mark.parametrize(("path", "status"), [("/a%2fb", 400), ("//hello", 200), ("/./hello", 200)])
def test_paths_have_one_reading(platform: Any, path: str, status: int) -> None:
    assert ask(platform.urls["plain"], path).status == status


def test_a_header_with_an_underscore_is_refused(platform: Any) -> None:
    assert ask(platform.urls["plain"], "/hello", headers={"x_y": "1"}).status == 400


def test_clients_cannot_set_time_outs(platform: Any) -> None:
    headers = {"x-envoy-upstream-rq-timeout-ms": "1"}
    reply = ask(platform.urls["plain"], "/work?ops=1000000", headers=headers)
    assert reply.status == 200


def test_a_request_has_one_line_in_the_access_log(platform: Any) -> None:
    ask(platform.urls["plain"], "/hello?logged")

    def lines() -> list[dict]:
        rows = [line for line in platform.running.log.splitlines() if '"/hello?logged"' in line]
        return [json.loads(row) for row in rows if row.startswith("{")]

    eventually(lines)
    (line,) = lines()
    assert (line["method"], line["status"]) == ("GET", 200)
    assert line["replica"] in ("127.0.0.2", "127.0.0.3")


def test_plain_http_is_redirected(platform: Any) -> None:
    reply = ask(platform.urls["edge"], "/hello?a=b")
    assert reply.status == 308
    assert reply.headers["location"].startswith("https://127.0.0.1:")
    assert reply.headers["location"].endswith("/hello?a=b")


def test_tls_serves_says_where_http3_is_and_limits_the_rate(platform: Any) -> None:
    context = ssl.create_default_context(cafile=platform.running.folder / "localhost.crt")
    replies = []

    def limited() -> bool:
        try:
            with urllib.request.urlopen(f"{platform.https['edge']}/hello", context=context) as reply:
                replies.append((reply.status, reply.headers))
        except urllib.error.HTTPError as refused:
            assert (refused.code, refused.headers["content-type"]) == (429, PROBLEM)
            assert json.loads(refused.read())["title"] == "Too Many Requests"
            return True
        return False

    eventually(limited)
    status, headers = replies[0]
    assert (status, headers["corelane-replica"]) in [(200, f"127.0.0.{each}") for each in (2, 3)]
    port = platform.https["edge"].rpartition(":")[2]
    assert f'h3=":{port}"' in headers["alt-svc"]


def test_old_tls_is_refused(platform: Any) -> None:
    context = ssl.create_default_context(cafile=platform.running.folder / "localhost.crt")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(urllib.error.URLError, match="alert protocol version"):
        urllib.request.urlopen(f"{platform.https['edge']}/hello", context=context)
