"""With TLS, HTTP/3, a rate limit, spans and load-aware balancing."""

import json
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stack import PATIENCE, becomes, eventually
from stack.http import Reply, ask
from support.envoy_gateway import policy, unhappy

SETTINGS = [
    "cpus=2",
    "pinning=exclusive",
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


@pytest.fixture(scope="module")
def authority(platform: Any) -> Path:
    """The certificate to trust."""
    return platform.running.folder / "localhost.crt"


@pytest.fixture(scope="module")
def served(platform: Any, authority: Path) -> Reply:
    """The first reply of a replica by TLS, whose listener is ready later than the other."""
    found = []

    def first() -> bool:
        try:
            found.append(ask(platform.https, "/hello", authority=authority))
        except OSError:
            return False
        return found[-1].status == 200

    eventually(first, f"a reply of a replica from {platform.https}")
    return found[-1]


def test_every_object_is_accepted(platform: Any) -> None:
    def conditions() -> dict:
        found = unhappy(platform.running, platform.objects)
        return {name: list(conditions) for name, conditions in found.items()}

    # Only a cluster gives a Gateway an address.
    becomes(conditions, {("Gateway", "corelane-gateway"): ["Programmed"]})


def test_bootstrap_has_what_envoy_gateway_has_no_field_for(platform: Any) -> None:
    bootstrap = platform.running.configuration()["BootstrapConfigDump"]["bootstrap"]
    assert bootstrap["enable_worker_cpu_affinity"] is True
    layers = bootstrap["layered_runtime"]["layers"]
    (values,) = (each["static_layer"] for each in layers if each["name"] == "static")
    assert values == {"example": 1, "http.max_requests_per_io_cycle": 5}


def test_replicas_are_balanced_by_their_reports(platform: Any) -> None:
    assert policy(platform.running.configuration()) == "client_side_weighted_round_robin"


def test_plain_http_is_redirected(platform: Any) -> None:
    reply = ask(platform.url, "/hello?a=b")
    assert reply.status == 308
    assert reply.headers["location"].startswith("https://127.0.0.1:")
    assert reply.headers["location"].endswith("/hello?a=b")


def test_tls_serves_and_says_where_http3_is(served: Reply, platform: Any) -> None:
    assert served.replica in ("127.0.0.2", "127.0.0.3")
    assert f'h3=":{urlsplit(platform.https).port}"' in served.headers["alt-svc"]


@pytest.mark.usefixtures("served")
def test_the_rate_is_limited(platform: Any, authority: Path) -> None:
    replies = []

    def limited() -> bool:
        replies.append(ask(platform.https, "/hello", authority=authority))
        return replies[-1].status == 429

    eventually(limited)
    assert replies[-1].headers["content-type"] == PROBLEM
    assert json.loads(replies[-1].body)["title"] == "Too Many Requests"


@pytest.mark.usefixtures("served")
def test_old_tls_is_refused(platform: Any, authority: Path) -> None:
    context = ssl.create_default_context(cafile=authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    address = "localhost", urlsplit(platform.https).port
    with (
        socket.create_connection(address, timeout=PATIENCE) as plain,
        pytest.raises(ssl.SSLError, match="alert protocol version"),
    ):
        context.wrap_socket(plain, server_hostname="localhost")
