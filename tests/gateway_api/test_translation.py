"""What Envoy Gateway says of the objects, and what its Envoys run with, against mode envoy."""

from typing import Any

import pytest

from support.envoy_gateway import GROUPS
from support.rendering import envoy_config

EVERY_RELEASE = pytest.mark.parametrize("release", ["plain", "edge", "behind", "turns"])

JUDGED = {"GatewayClass", "Gateway", "HTTPRoute", "ClientTrafficPolicy", "BackendTrafficPolicy"}
"""The kinds that have a status; an EnvoyProxy has that of its Gateway."""


def names(platform: Any, release: str) -> set[tuple[str, str]]:
    """The objects of a release that Envoy Gateway judges."""
    return {
        (each["kind"], each["metadata"]["name"])
        for each in platform.objects
        if each["kind"] in JUDGED
        and each["apiVersion"].startswith(GROUPS)
        and each["metadata"]["labels"]["app.kubernetes.io/instance"] == release
    }


@EVERY_RELEASE
def test_every_object_is_accepted(platform: Any, release: str) -> None:
    conditions = platform.running.conditions()
    for each in names(platform, release):
        found = dict(conditions[each])
        if each[0] == "Gateway":
            # Only a cluster gives it an address.
            assert found.pop("Programmed").startswith("False: No addresses")
            assert {"http.Programmed", "http.ResolvedRefs"} <= found.keys()
        assert found, each
        assert any(name.endswith("Accepted") for name in found), (each, found)
        assert {name: why for name, why in found.items() if why != "True"} == {}, each


@pytest.fixture(scope="module")
def plain(platform: Any) -> dict[str, dict]:
    """What the Envoy of the release `plain` runs with."""
    return platform.running.configuration("plain-gateway")


def cluster(configuration: dict[str, dict], name: str) -> dict:
    """The one cluster of the replicas whose name begins so."""
    found = [
        each["cluster"]
        for each in configuration["ClustersConfigDump"]["dynamic_active_clusters"]
        if each["cluster"]["name"].startswith(name)
    ]
    (only,) = found
    return only


def test_both_rules_share_one_cluster_with_the_settings_of_mode_envoy(plain: dict) -> None:
    ours = cluster(plain, "backend/prod/replicas")
    (envoy,) = [
        each
        for each in envoy_config("upstream.timeout=2s")["static_resources"]["clusters"]
        if each["name"] == "server"
    ]
    assert ours["connect_timeout"] == envoy["connect_timeout"]
    assert ours["per_connection_buffer_limit_bytes"] == envoy["per_connection_buffer_limit_bytes"]
    (health,), (wanted) = ours["health_checks"], envoy["health_checks"][0]
    for key in ("interval", "timeout", "unhealthy_threshold", "healthy_threshold"):
        assert health[key] == wanted[key]
    assert health["http_health_check"]["path"] == wanted["http_health_check"]["path"]
    (limits,), (breakers) = (
        ours["circuit_breakers"]["thresholds"],
        envoy["circuit_breakers"]["thresholds"][0],
    )
    for key, value in breakers.items():
        assert limits[key] == value
    outliers, wanted = ours["outlier_detection"], envoy["outlier_detection"]
    for key in ("interval", "base_ejection_time", "max_ejection_percent"):
        assert outliers[key] == wanted[key]
    # The only way to say "never": it is enforced, but no replica comes to that number.
    assert (outliers["consecutive_5xx"], outliers["consecutive_gateway_failure"]) == (0, 0)


def test_what_is_retried_depends_on_the_method(plain: dict) -> None:
    (routes,) = plain["RoutesConfigDump"]["dynamic_route_configs"]
    (host,) = routes["route_config"]["virtual_hosts"]
    found = {}
    for route in host["routes"]:
        methods = [each["string_match"]["exact"] for each in route["match"].get("headers", [])]
        assert route["route"]["timeout"] == "2s"
        found["".join(methods) or "other"] = route["route"]["retry_policy"]
    assert found.keys() == {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "other"}
    assert found["GET"]["retry_on"] == "connect-failure,refused-stream,reset,retriable-status-codes"
    assert found["GET"]["retriable_status_codes"] == [503]
    assert found["other"]["retry_on"] == "connect-failure,refused-stream,reset-before-request"
    for policy in found.values():
        assert policy["num_retries"] == 3
        assert policy["retry_back_off"] == {"base_interval": "0.010s", "max_interval": "0.250s"}


def test_overload_manager_is_that_of_mode_envoy(plain: dict) -> None:
    ours = plain["BootstrapConfigDump"]["bootstrap"]["overload_manager"]
    envoy = envoy_config("overload.monitor=heap")["overload_manager"]
    for part in ("resource_monitors", "actions", "loadshed_points"):
        assert [each["name"] for each in ours[part]] == [each["name"] for each in envoy[part]]


@pytest.mark.parametrize(
    ("release", "policy"),
    [
        ("plain", "least_request"),
        ("edge", "client_side_weighted_round_robin"),
        ("turns", "round_robin"),
    ],
)
def test_balancing_policy_is_the_wanted_one(platform: Any, release: str, policy: str) -> None:
    configuration = platform.running.configuration(f"{release}-gateway")
    policies = cluster(configuration, "backend/")["load_balancing_policy"]["policies"]
    assert [each["typed_extension_config"]["name"] for each in policies] == [
        f"envoy.load_balancing_policies.{policy}"
    ]
