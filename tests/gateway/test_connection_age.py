"""Old connections of a gateway to its replicas: over HTTP/2 they end by GOAWAY, and no request fails by it."""

from collections.abc import Callable
from pathlib import Path

from support import eventually
from support.envoys import endpoint, gateway_to
from support.load import Load
from support.servers import Server

OLD = 'corelane_connections_refused_total{lane="0",reason="age"}'
OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

# Each request has one attempt: a retry would hide what a connection's end costs.
ONCE = {"upstream": {"retries": {"attempts": 0}}}


def speak_http2(configuration: dict) -> None:
    """Has Envoy speak HTTP/2 with the replicas. The chart has no value for it: see gateway/cost.md."""
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
