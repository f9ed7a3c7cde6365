"""With TLS, HTTP/3, a rate limit, spans and load-aware balancing."""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

import pytest

from support import eventually
from support.client import ask
from support.envoy_gateway import policy, unhappy

SETTINGS = [
    "cpus=2",
    "tls.enabled=true",
    "tls.secret=certificate",
    "tls.minVersion=1.3",
    "http3.enabled=true",
    "rateLimit.enabled=true",
    "rateLimit.requests=1",
    "rateLimit.perClient.requests=1",
    "tracing.enabled=true",
    "tracing.host=127.0.0.1",
    "listener.trustedHops=1",
    "upstream.balancing.policy=load-aware",
    "upstream.balancing.slowStart.window=10s",
    "runtime.example=1",
]

PROBLEM = "application/problem+json"


def test_every_object_is_accepted(platform: Any) -> None:
    # Only a cluster gives a Gateway an address.
    assert {
        name: list(found) for name, found in unhappy(platform.running, platform.objects).items()
    } == {("Gateway", "corelane-gateway"): ["Programmed"]}


def test_bootstrap_has_what_envoy_gateway_has_no_field_for(platform: Any) -> None:
    bootstrap = platform.running.configuration()["BootstrapConfigDump"]["bootstrap"]
    assert bootstrap["enable_worker_cpu_affinity"] is True
    layers = bootstrap["layered_runtime"]["layers"]
    assert {"name": "static", "static_layer": {"example": 1}} in layers


def test_replicas_are_balanced_by_their_reports(platform: Any) -> None:
    assert policy(platform.running.configuration()) == "client_side_weighted_round_robin"


def test_plain_http_is_redirected(platform: Any) -> None:
    reply = ask(platform.url, "/hello?a=b")
    assert reply.status == 308
    assert reply.headers["location"].startswith("https://127.0.0.1:")
    assert reply.headers["location"].endswith("/hello?a=b")


def test_tls_serves_says_where_http3_is_and_limits_the_rate(platform: Any) -> None:
    context = ssl.create_default_context(cafile=platform.running.folder / "localhost.crt")
    replies = []

    def limited() -> bool:
        try:
            with urllib.request.urlopen(f"{platform.https}/hello", context=context) as reply:
                replies.append((reply.status, reply.headers))
        except urllib.error.HTTPError as refused:
            assert (refused.code, refused.headers["content-type"]) == (429, PROBLEM)
            assert json.loads(refused.read())["title"] == "Too Many Requests"
            return True
        return False

    eventually(limited)
    status, headers = replies[0]
    assert (status, headers["corelane-replica"]) in [(200, f"127.0.0.{each}") for each in (2, 3)]
    port = platform.https.rpartition(":")[2]
    assert f'h3=":{port}"' in headers["alt-svc"]


def test_old_tls_is_refused(platform: Any) -> None:
    context = ssl.create_default_context(cafile=platform.running.folder / "localhost.crt")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(urllib.error.URLError, match="alert protocol version"):
        urllib.request.urlopen(f"{platform.https}/hello", context=context)
