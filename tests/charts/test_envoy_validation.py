"""The real Envoy validates all configurations in the docs and all pairs of switches. Also covers
the error responses.
"""

import json
import mmap
import re
import socket
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import pytest

from stack import REPOSITORY
from stack.gateway import Gateway, gateway_to
from stack.http import Reply, ask
from stack.rendering import GATEWAY_VALUES, envoy_config
from support.validation import OIDC, accepted
from tools.resolve import tool

TLS = "tls.enabled=true,tls.secret=certificate"
JWT = (
    "authentication.jwt.enabled=true,authentication.jwt.secret=jwt,authentication.jwt.issuer=i,"
    "authentication.jwt.audiences={a}"
)
ENDPOINT = "upstream.discovery=static,upstream.endpoints[0].address=127.0.0.1"

# One switch per line, with its positions as chart settings.
SWITCHES = (
    (
        "",
        "listener.proxyProtocol=true",
        TLS,
        f"{TLS},tls.plain=serve,tls.minVersion=1.3",
        f"{TLS},http3.enabled=true",
        f"{TLS},listener.proxyProtocol=true",
    ),
    ("", "overload.monitor=heap", "overload.monitor=none"),
    (
        "",
        JWT,
        f"{JWT},authentication.jwt.url=https://i.test/keys,authentication.jwt.requireClaims[0].claim=sub",
        f"{OIDC},listener.trustedHops=1,authentication.oidc.endSessionEndpoint=https://i.test/end",
    ),
    ("", "cors.origins={*}"),
    ("", "mtls.enabled=true", "mtls.enabled=true,upstream.identity=shop.internal"),
    ("", "rateLimit.enabled=true", "rateLimit.enabled=true,rateLimit.perClient.requests=5"),
    (
        "",
        "tracing.enabled=true,tracing.host=collector",
        "tracing.enabled=true,tracing.host=collector,tracing.protocol=http",
    ),
    ("", "accessLog.enabled=false", "accessLog.percent=100", "accessLog.percent=0"),
    (
        "",
        "upstream.discovery=dns",
        f"{ENDPOINT},upstream.endpoints[0].port=80,upstream.endpoints[0].adminPort=81",
    ),
    ("", "listener.escapedSlashes=redirect", "listener.escapedSlashes=keep"),
    ("", "listener.trustedHops=1"),
    ("", "listener.internal.enabled=true"),
    ("", "listener.bodyBytes=0,listener.http10=false"),
    ("", "listener.keepalive.probes=0,listener.http2.ping=0s"),
    ("", "listener.timeouts.age=0s,listener.timeouts.total=0s"),
    ("", "upstream.outliers.failurePercent=0"),
    (
        "",
        "upstream.protocol=grpc,upstream.health.grpc=true",
        "upstream.protocol=auto,upstream.upgrade={websocket}",
    ),
    (
        "",
        "upstream.balancing.policy=least-request-p2c,upstream.balancing.slowStart.window=15s",
        "upstream.balancing.policy=round-robin",
        "upstream.balancing.policy=load-aware",
        "upstream.balancing.policy=ring-hash,upstream.balancing.ringHash.key=source-address",
    ),
    ("", "stats.replies=false"),
    ("", "cpus=2,pinning=exclusive,workers.affinity=on"),
    ("", "overload.reduceTimeouts.from=0,overload.resetStreams.from=0,overload.shrinkHeap=0"),
    ("", "overload.refuseConnections=0,overload.goAway=0,overload.abortRequests=0"),
)


def rows() -> list[tuple[str, ...]]:
    """Pairwise testing: every pair of positions occurs in at least one row."""
    numbers = range(len(SWITCHES))
    missing = {
        ((one, left), (two, right))
        for one, two in combinations(numbers, 2)
        for left, right in product(SWITCHES[one], SWITCHES[two])
    }
    found = []
    while missing:
        # Start with an uncovered pair, then greedily cover the most pairs.
        row = dict(min(missing))
        for number in numbers:
            if number not in row:
                row[number] = max(SWITCHES[number], key=lambda at: _met(row, number, at, missing))
        missing -= set(combinations(sorted(row.items()), 2))
        found.append(tuple(row[number] for number in numbers))
    return found


def _met(row: dict[int, str], number: int, position: str, missing: set) -> int:
    pairs = (tuple(sorted([(number, position), other])) for other in row.items())
    return sum(pair in missing for pair in pairs)


@pytest.mark.parametrize("values", GATEWAY_VALUES, ids=lambda path: path.stem)
def test_envoy_accepts_every_values_file_without_a_warning(values: Path, tmp_path: Path) -> None:
    accepted(tmp_path, values=values)


EXAMPLES = re.findall(
    r"^```yaml\n(.*?)^```$",
    (REPOSITORY / "gateway" / "routes.md").read_text(),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_envoy_accepts_every_example_of_routes(example: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(example)
    accepted(tmp_path, values=tmp_path / "values.yaml")


@pytest.mark.parametrize("row", rows(), ids=lambda row: " ".join(filter(None, row))[:40])
def test_envoy_accepts_switches_whatever_the_others_are(
    row: tuple[str, ...], tmp_path: Path
) -> None:
    accepted(tmp_path, *filter(None, row))


def test_the_binary_knows_every_name_of_the_overload_manager() -> None:
    """Envoy ignores unknown load-shed points."""
    manager = envoy_config()["overload_manager"]
    names = {entry["name"] for kind in ("actions", "loadshed_points") for entry in manager[kind]}
    assert len(names) == 9
    with tool("envoy").open("rb") as file:
        binary = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        known = {name for name in names if binary.find(name.encode() + b"\0") >= 0}
        assert names == known
        assert binary.find(b"envoy.load_shed_points.of_no_such_name\0") < 0


def is_problem(reply: Reply, slug: str, title: str) -> bool:
    """Exactly this problem+json (RFC 9457)."""
    members = {"type": f"urn:corelane:problem:{slug}", "title": title, "status": reply.status}
    content_type = reply.headers["content-type"]
    return content_type == "application/problem+json" and json.loads(reply.body) == members


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    # These sockets reserve the ports but do not listen, so connections are refused.
    with socket.socket() as traffic, socket.socket() as admin:
        for held in (traffic, admin):
            held.bind(("127.0.0.1", 0))
        ports = {"port": traffic.getsockname()[1], "adminPort": admin.getsockname()[1]}
        down = {"address": "127.0.0.1", **ports}
        with gateway_to([down], tmp_path_factory.mktemp("gateway")) as running:
            yield running


@pytest.mark.parametrize("path", ["/ready", "/live", "/stats/prometheus"])
def test_stats_listener_answers_three_paths(gateway: Gateway, path: str) -> None:
    assert ask(gateway.stats, path).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/ready"),
        ("POST", "/live"),
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


def test_a_draining_envoy_is_alive_and_not_ready(tmp_path: Path) -> None:
    with gateway_to([{"address": "127.0.0.1", "port": 1, "adminPort": 1}], tmp_path) as draining:
        assert ask(draining.admin, "/healthcheck/fail", "POST").status == 200
        assert ask(draining.stats, "/ready").status == 503
        assert ask(draining.stats, "/live").status == 200


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
    # UF: connection failure; URX: retries exhausted.
    assert set(entry["flags"].split(",")) == {"UF", "URX"}
    assert "replica" not in entry


def test_clients_cannot_set_retries(gateway: Gateway) -> None:
    ask(gateway.url, "/retried", headers={"x-envoy-max-retries": "0"})
    assert gateway.logged("/retried")["attempts"] == 6


def test_admin_does_not_stop_envoy(gateway: Gateway) -> None:
    assert ask(gateway.admin, "/server_info").status == 200
    assert ask(gateway.admin, "/quitquitquit", "POST").status == 403
    assert gateway.ready()
