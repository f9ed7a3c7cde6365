"""The rendered Envoy configuration. test_envoy_validation.py runs the real Envoy on it."""

from pathlib import Path

import pytest

from stack import REPOSITORY
from stack.rendering import GATEWAY_VALUES, envoy_config
from support.validation import OIDC

pytestmark = pytest.mark.fast

OWN = {"admin", "authorization", "collector", "gateways", "jwks", "oidc", "oidckeys"}
"""Clusters that only Envoy itself uses."""

EVERY_VALUES_FILE = pytest.mark.parametrize("values", GATEWAY_VALUES, ids=lambda path: path.stem)


def listener(configuration: dict, name: str) -> dict:
    found = configuration["static_resources"]["listeners"]
    (only,) = [entry for entry in found if entry["name"] == name]
    return only


def cluster(configuration: dict, name: str) -> dict:
    found = configuration["static_resources"]["clusters"]
    (only,) = [entry for entry in found if entry["name"] == name]
    return only


def connection_manager(configuration: dict, name: str) -> dict:
    (chain,) = listener(configuration, name)["filter_chains"]
    (only,) = chain["filters"]
    return only["typed_config"]


def test_the_gateway_folder_shows_the_templates() -> None:
    templates = REPOSITORY / "gateway" / "config"
    assert templates.is_symlink()
    assert (templates / "_bootstrap.tpl").is_file()
    assert GATEWAY_VALUES


@EVERY_VALUES_FILE
def test_admin_is_on_loopback(values: Path) -> None:
    admin = envoy_config(values=values)["admin"]
    assert admin["address"]["socket_address"]["address"] == "127.0.0.1"


@EVERY_VALUES_FILE
def test_clients_reach_only_the_replicas(values: Path) -> None:
    configuration = envoy_config(values=values)
    names = [entry["name"] for entry in configuration["static_resources"]["listeners"]]
    clusters = {entry["name"] for entry in configuration["static_resources"]["clusters"]}
    for name in set(names) - {"stats", "jwks"}:
        hosts = connection_manager(configuration, name)["route_config"]["virtual_hosts"]
        reached = {
            cluster
            for host in hosts
            for route in host["routes"]
            for cluster in reaches(route.get("route", {}))
        }
        # Redirects and direct responses use no cluster.
        assert reached == clusters - OWN or "redirect" in hosts[0]["routes"][-1]


def reaches(action: dict) -> set[str]:
    weighted = action.get("weighted_clusters", {}).get("clusters", [])
    mirrored = [each["cluster"] for each in action.get("request_mirror_policies", [])]
    one = [action["cluster"]] if "cluster" in action else []
    return {*one, *mirrored, *(each["name"] for each in weighted)}


def test_only_services_keep_request_ids_and_no_proxy_is_in_front_of_them() -> None:
    tls = "tls.enabled=true,tls.secret=tls"
    proxies = "listener.trustedHops=2,listener.proxyProtocol=true"
    configuration = envoy_config(tls, proxies, "listener.internal.enabled=true")
    internal = connection_manager(configuration, "internal")
    assert (internal["preserve_external_request_id"], internal["xff_num_trusted_hops"]) == (True, 0)
    assert "listener_filters" not in listener(configuration, "internal")
    for name in ("ingress", "ingress_tls"):
        other = connection_manager(configuration, name)
        assert other["xff_num_trusted_hops"] == 2
        assert "preserve_external_request_id" not in other
        assert "listener_filters" in listener(configuration, name)


def test_filters_have_a_fixed_order() -> None:
    jwt = (
        "authentication.jwt.enabled=true,authentication.jwt.secret=jwt,authentication.jwt.issuer=i"
    )
    configuration = envoy_config(
        f"{jwt},authentication.jwt.audiences={{a}},authentication.jwt.requireClaims[0].claim=sub",
        "cors.origins={*},tls.enabled=true,tls.secret=tls,tls.plain=serve,http3.enabled=true,rateLimit.enabled=true",
        "routes[0].name=shop,routes[0].service.name=shop,routes[0].protocol=grpc",
        "routes[0].rateLimit.requests=5,routes[0].bodyBytes=5",
        "rateLimit.keys[0].claim=sub,rateLimit.keys[0].requests=5",
        "externalAuthorization.enabled=true,externalAuthorization.host=a",
        "compression.enabled=true",
        "authentication.apiKeys.enabled=true,authentication.apiKeys.secret=a",
        "authentication.basicAuth.enabled=true,authentication.basicAuth.secret=b,authentication.basicAuth.everywhere=false",
        f"{OIDC},authentication.oidc.everywhere=false",
    )
    order = [
        "envoy.filters.http.cors",
        "envoy.filters.http.local_ratelimit",
        "corelane.oidc",
        "corelane.id_token",
        "envoy.filters.http.jwt_authn",
        "corelane.claims",
        "corelane.api_keys",
        "corelane.basic_auth",
        "corelane.external_authorization",
        "corelane.key_rate_limits",
        "corelane.route_rate_limits",
        "envoy.filters.http.credential_injector",
        "corelane.brotli",
        "corelane.gzip",
        "envoy.filters.http.body_size_limit",
        "envoy.filters.http.filter_chain",
        "envoy.filters.http.grpc_web",
        "envoy.filters.http.router",
    ]
    for name in ("ingress", "ingress_tls", "ingress_http3"):
        manager = connection_manager(configuration, name)
        filters = [each["name"] for each in manager["http_filters"]]
        announced = ["envoy.filters.http.header_mutation"] if name == "ingress_tls" else []
        assert filters == announced + order, name


@EVERY_VALUES_FILE
def test_stats_listener_exposes_three_paths_by_get(values: Path) -> None:
    (host,) = connection_manager(envoy_config(values=values), "stats")["route_config"][
        "virtual_hosts"
    ]
    *passed, last = host["routes"]
    only_get = [{"name": ":method", "string_match": {"exact": "GET"}}]
    assert [route["match"] for route in passed] == [
        {"path": "/stats/prometheus", "headers": only_get},
        {"path": "/ready", "headers": only_get},
        {"path": "/live", "headers": only_get},
    ]
    assert last == {"match": {"prefix": "/"}, "direct_response": {"status": 404}}


def test_static_endpoints_are_checked_on_their_admin_ports() -> None:
    values = REPOSITORY / "gateway" / "values" / "local.yaml"
    server = cluster(envoy_config(values=values), "server")
    (group,) = server["load_assignment"]["endpoints"]
    found = [
        (
            entry["endpoint"]["address"]["socket_address"]["port_value"],
            entry["endpoint"]["health_check_config"]["port_value"],
        )
        for entry in group["lb_endpoints"]
    ]
    assert found == [(8100, 8200), (8101, 8201)]


def test_dns_endpoints_are_checked_on_the_admin_port() -> None:
    server = cluster(
        envoy_config("upstream.discovery=dns", "upstream.dns.adminPort=9999"), "server"
    )
    assert server["cluster_type"]["name"] == "envoy.clusters.dns"
    (group,) = server["load_assignment"]["endpoints"]
    (entry,) = group["lb_endpoints"]
    assert entry["endpoint"]["health_check_config"] == {"port_value": 9999}


def test_a_draining_replica_keeps_what_is_in_flight() -> None:
    server = cluster(envoy_config(), "server")
    assert not server.get("close_connections_on_host_health_failure", False)


def test_only_what_may_run_twice_is_retried_after_a_reset() -> None:
    (host,) = connection_manager(envoy_config(), "ingress")["route_config"]["virtual_hosts"]
    idempotent, once = (route for route in host["routes"] if "route" in route)
    (method,) = idempotent["match"]["headers"]
    methods = set(method["string_match"]["safe_regex"]["regex"].split("|"))
    # RFC 9110 section 9.2.1, without TRACE.
    assert methods == {"GET", "HEAD", "OPTIONS"}
    conditions = {
        route["name"]: set(route["route"]["retry_policy"]["retry_on"].split(","))
        for route in (idempotent, once)
    }
    unseen = {"connect-failure", "refused-stream", "retriable-headers"}
    assert conditions["idempotent"] == unseen | {"reset"}
    assert conditions["once"] == unseen | {"reset-before-request"}
    headers = [route["route"]["retry_policy"]["retriable_headers"] for route in (idempotent, once)]
    # This header is set only if no handler started; `retry-after` alone does not prove that.
    assert headers == [[{"name": "corelane-not-started", "present_match": True}]] * 2


def test_trace_ends_here_whatever_may_be_repeated() -> None:
    configuration = envoy_config("upstream.retries.idempotentMethods={GET,TRACE}")
    (host,) = connection_manager(configuration, "ingress")["route_config"]["virtual_hosts"]
    names = [route["name"] for route in host["routes"]]
    assert names == ["several-hosts", "chunks-of-http-1-0", "trace", "idempotent", "once"]


def test_every_listener_of_clients_reads_requests_in_one_way() -> None:
    values = REPOSITORY / "gateway" / "values" / "http3.yaml"
    configuration = envoy_config("tls.plain=serve", values=values)
    plain, tls, http3 = (
        connection_manager(configuration, name)
        for name in ("ingress", "ingress_tls", "ingress_http3")
    )
    own = {"codec_type", "local_reply_config"}
    by_protocol = {"http_protocol_options", "http2_protocol_options", "http3_protocol_options"}
    assert {key for key in plain if plain[key] != tls[key]} == {"http_filters"}
    assert tls["http_filters"].pop(0)["name"] == "envoy.filters.http.header_mutation"
    assert plain["http_filters"] == tls["http_filters"]
    assert {key for key in plain if plain[key] != http3.get(key)} <= own | by_protocol


def test_access_log_can_be_switched_off() -> None:
    assert "access_log" in connection_manager(envoy_config(), "ingress")
    off = connection_manager(envoy_config("accessLog.enabled=false"), "ingress")
    assert "access_log" not in off


@pytest.mark.parametrize(
    ("given", "rendered"), [("250ms", "0.250s"), ("5s", "5s"), ("2m", "120s"), ("1001ms", "1.001s")]
)
def test_durations_take_the_form_that_envoy_reads(given: str, rendered: str) -> None:
    server = cluster(
        envoy_config(f"upstream.connectTimeout={given}", "upstream.timeout=1h"), "server"
    )
    assert server["connect_timeout"] == rendered
