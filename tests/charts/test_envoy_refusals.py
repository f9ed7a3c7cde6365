"""What a running Envoy refuses by itself; no replica is up."""

import json
import socket
from collections.abc import Iterator

import pytest

from support.client import Reply, ask
from support.envoys import Gateway, gateway_to


def is_problem(reply: Reply, slug: str, title: str) -> bool:
    """Whether a reply is problem+json (RFC 9457) that says this and no more."""
    members = {"type": f"urn:corelane:problem:{slug}", "title": title, "status": reply.status}
    content_type = reply.headers["content-type"]
    return content_type == "application/problem+json" and json.loads(reply.body) == members


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Envoy in front of a replica that is down."""
    # Bound, so that nobody else gets the ports, and not listening, so that they refuse.
    with socket.socket() as traffic, socket.socket() as admin:
        for held in (traffic, admin):
            held.bind(("127.0.0.1", 0))
        ports = {"port": traffic.getsockname()[1], "adminPort": admin.getsockname()[1]}
        down = {"address": "127.0.0.1", **ports}
        with gateway_to([down], tmp_path_factory.mktemp("gateway")) as running:
            yield running


@pytest.mark.parametrize("path", ["/ready", "/stats/prometheus"])
def test_stats_listener_answers_two_paths(gateway: Gateway, path: str) -> None:
    assert ask(gateway.stats, path).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/ready"),
        ("POST", "/stats/prometheus"),
        ("GET", "/stats"),
        ("GET", "/config_dump"),
        ("POST", "/quitquitquit"),
        ("POST", "/logging?level=trace"),
        ("GET", "/ready/../config_dump"),
        ("GET", "/stats/prometheus/../../config_dump"),
        ("GET", "//config_dump"),
        ("GET", "/"),
    ],
)
def test_stats_listener_refuses_all_else(gateway: Gateway, method: str, path: str) -> None:
    reply = ask(gateway.stats, path, method)
    assert reply.status == 404
    assert is_problem(reply, "not-found", "Not Found")


def test_no_replica_is_503_without_internals(gateway: Gateway) -> None:
    reply = ask(gateway.url, "/hello")
    assert reply.status == 503
    assert is_problem(reply, "service-unavailable", "Service Unavailable")
    assert not {"server", "corelane-replica"} & set(reply.headers)
    assert not [name for name in reply.headers if name.startswith("x-envoy")]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/hello", {"content_length": "0"}),
        ("/static/%2e%2e%2fsecret", {}),
        ("/a%5Cb", {}),
        ("/hello", {"transfer-encoding": "chunked", "content-length": "3"}),
    ],
    ids=["underscore", "escaped-slash", "escaped-backslash", "two-lengths"],
)
def test_ambiguous_requests_are_400(gateway: Gateway, path: str, headers: dict[str, str]) -> None:
    reply = ask(gateway.url, path, headers=headers)
    assert reply.status == 400
    assert is_problem(reply, "bad-request", "Bad Request")


@pytest.mark.parametrize(
    "headers",
    [{"x-long": "a" * 33 * 1024}, {f"x-{number}": "1" for number in range(101)}],
    ids=["long", "many"],
)
def test_too_large_headers_are_431(gateway: Gateway, headers: dict[str, str]) -> None:
    reply = ask(gateway.url, "/hello", headers=headers)
    assert reply.status == 431
    assert is_problem(reply, "request-header-fields-too-large", "Request Header Fields Too Large")


def test_access_log_tells_what_the_reply_does_not(gateway: Gateway) -> None:
    ask(gateway.url, "/logged?once=1")
    entry = gateway.logged("/logged?once=1")
    assert entry["method"] == "GET"
    assert entry["status"] == 503
    # UF: the connection failed; URX: retries used up.
    assert set(entry["flags"].split(",")) == {"UF", "URX"}
    assert "replica" not in entry


def test_clients_cannot_set_retries(gateway: Gateway) -> None:
    """Envoy obeys x-envoy-max-retries of clients that it takes for internal."""
    ask(gateway.url, "/retried", headers={"x-envoy-max-retries": "0"})
    assert gateway.logged("/retried")["attempts"] == 4


def test_admin_does_not_stop_envoy(gateway: Gateway) -> None:
    assert ask(gateway.admin, "/server_info").status == 200
    assert ask(gateway.admin, "/quitquitquit", "POST").status == 403
    assert gateway.ready()
