"""The reference service behind the real Envoy, also over old connections to replicas."""

import json
import os
import re
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack import eventually
from stack.gateway import endpoint, entries, gateway_to
from stack.http import Client, ask
from stack.load import Load
from stack.replica import Server
from support.platforms import Platform
from support.raw import connect, read_until


def test_every_reply_names_its_replica_and_the_spread_is_even(platform: Platform) -> None:
    client = Client(platform.gateway)
    expected = {replica.name for replica in platform.replicas}

    def even() -> bool:
        names = [client.ask("/hello").replica for _ in range(400)]
        assert set(names) <= expected
        # Envoy chooses randomly among idle replicas.
        share = len(names) / len(expected)
        return all(abs(names.count(name) - share) <= 0.2 * share for name in expected)

    # A replica whose health check was late gets no requests until the next check.
    eventually(even, "an even spread")
    client.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/div/4", 200),
        ("GET", "/work?ops=10", 200),
        ("GET", "/static/", 200),
        ("GET", "/none", 404),
        ("GET", "/work?ops=no", 400),
        ("POST", "/hello", 405),
    ],
)
def test_replies_pass_unchanged(platform: Platform, method: str, path: str, status: int) -> None:
    through = ask(platform.gateway, path, method)
    replica = next(each for each in platform.replicas if each.name == through.replica)
    direct = ask(replica.url, path, method)
    assert (through.status, direct.status) == (status, status)
    assert through.headers["content-type"] == direct.headers["content-type"]
    assert through.headers.get("allow") == direct.headers.get("allow")
    if path != "/":
        assert through.body == direct.body


@pytest.mark.parametrize("path", ["/hello", "/static/", "/none"])
def test_head_equals_get_without_body(platform: Platform, path: str) -> None:
    get, head = ask(platform.gateway, path), ask(platform.gateway, path, "HEAD")
    assert head.body == b""
    assert (get.status, get.headers["content-length"]) == (
        head.status,
        head.headers["content-length"],
    )


def test_stats_are_read_only(platform: Platform) -> None:
    assert ask(platform.stats, "/ready").status == 200
    assert b"envoy_cluster_upstream_rq_total" in ask(platform.stats, "/stats/prometheus").body
    assert ask(platform.stats, "/quitquitquit", "POST").status in (403, 404, 405)
    assert ask(platform.stats, "/config_dump").status in (403, 404)


def test_the_admin_is_on_loopback_only(platform: Platform) -> None:
    port = urlsplit(platform.envoy_admin).port
    # proc_net_tcp(5): addresses are hexadecimal in the byte order of the CPU, 0A is LISTEN.
    rows = [
        line.split()
        for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
        if table.exists()  # Without IPv6, the second file does not exist.
        for line in table.read_text().splitlines()[1:]
    ]
    listening = {row[1] for row in rows if row[3] == "0A"}
    assert {each for each in listening if int(each.split(":")[1], 16) == port} == {
        f"0100007F:{port:04X}"
    }


def test_no_other_listener_is_there(platform: Platform) -> None:
    listeners = json.loads(ask(platform.envoy_admin, "/listeners?format=json").body)
    assert {listener["name"] for listener in listeners["listener_statuses"]} == {
        "ingress",
        "stats",
    }


def test_each_request_is_logged_as_json(platform: Platform) -> None:
    path = f"/hello?{secrets.token_hex(8)}"
    replica = ask(platform.gateway, path).replica
    (entry,) = eventually(lambda: entries(platform.run / "gateway.log", path))
    assert (entry["replica"], entry["status"]) == (replica, 200)


def end_under_load(platform: Platform, name: str, how: signal.Signals) -> None:
    """Sends a signal to a replica under load, and waits until it is back. No request may fail."""
    with Load(platform.gateway) as load:
        load.wait_for(50, name)
        before = platform.pid(name)
        # Pid 0 would mean every process of this group.
        assert before
        os.kill(before, how)
        eventually(lambda: platform.pid(name) not in (0, before), f"a new {name}")
        load.wait_for(50, name)
    assert set(load.replies) == {replica.name for replica in platform.replicas}
    assert not load.failures, f"{load.failures}\n{account(platform)}"


def account(platform: Platform) -> str:
    """Returns Envoy's counters of failed requests, because its logs are removed with the instance."""
    stats = (
        ask(platform.envoy_admin, "/stats?usedonly&filter=cluster.server")
        .body.decode()
        .splitlines()
    )
    causes = re.compile(r"retry|outlier|health_check|_fail|reset|timeout|none_healthy")
    return "\n".join(line for line in stats if causes.search(line))


@pytest.mark.parametrize("attempt", range(2))
def test_no_get_fails_when_a_replica_is_killed(platform: Platform, attempt: int) -> None:
    victim = platform.replicas[attempt % 2].name
    end_under_load(platform, victim, signal.SIGKILL)


@pytest.mark.parametrize("attempt", range(2))
def test_no_request_fails_while_a_replica_drains(platform: Platform, attempt: int) -> None:
    leaving = platform.replicas[attempt % 2].name
    log = platform.run / f"{leaving}.log"
    before = log.stat().st_size
    end_under_load(platform, leaving, signal.SIGTERM)
    eventually(lambda: b"drain: ended" in log.read_bytes()[before:], "the end of the drain")


@pytest.mark.parametrize("head", ["", "Host: x\r\n", "Connection: keep-alive\r\n"])
def test_http10_is_answered(platform: Platform, head: str) -> None:
    with connect(platform.gateway) as client:
        client.sendall(f"GET /hello HTTP/1.0\r\n{head}\r\n".encode())
        assert b" 200 OK\r\n" in read_until(client, b"Hello, World!")


def test_a_refused_upload_keeps_its_status(platform: Platform) -> None:
    """A replica that closes with unread bytes resets the connection, which Envoy reports as 503."""
    body = b"x" * 900_000
    statuses = {ask(platform.gateway, "/hello", "POST", body=body).status for _ in range(20)}
    assert statuses == {405}


OLD = 'corelane_connections_refused_total{lane="0",reason="age"}'
OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

# Each request has one attempt, because a retry would hide the effect of a closing connection.
ONCE = {"upstream": {"retries": {"attempts": 0}}}


def speak_http2(configuration: dict) -> None:
    """Makes Envoy use HTTP/2 to the replicas. The chart has no value for this: see
    gateway/cost.md."""
    for cluster in configuration["static_resources"]["clusters"]:
        if cluster["name"] == "server":
            options = cluster["typed_extension_protocol_options"][OPTIONS]
            options["explicit_http_config"] = {"http2_protocol_options": {}}


def test_no_request_fails_by_the_age_of_its_http2_connection(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    server = start("--timeouts.connection-age", "1s", "--lanes", "1")
    replica = endpoint(server.url, server.admin)
    with gateway_to([replica], tmp_path, ONCE, speak_http2) as gateway, Load(gateway.url) as load:
        eventually(lambda: load.failures or server.metrics()[OLD] >= 3, "three old connections")
        load.wait_for(50)
        used = gateway.counted("cluster.server.upstream_cx_http2_total")
    assert load.failures == []
    assert used > 3, "each that went was followed by another"
