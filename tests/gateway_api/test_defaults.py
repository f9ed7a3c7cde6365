"""With the values of mode envoy: what Envoy Gateway says, what Envoy runs with, and requests to real replicas."""

from typing import Any

import pytest

from stack import becomes, eventually
from stack.http import Client, ask
from stack.rendering import envoy_config
from support.envoy_gateway import HEALTH, cluster, policy, unhappy

SETTINGS = ["upstream.timeout=3s"]

NO_ADDRESS = {
    ("Gateway", "corelane-gateway"): {
        "Programmed": "False: No addresses have been assigned to the Gateway"
    }
}
"""Only a cluster gives it one."""


@pytest.fixture(scope="module")
def configuration(platform: Any) -> dict[str, dict]:
    """What Envoy runs with."""
    return platform.running.configuration()


def test_every_object_is_accepted(platform: Any) -> None:
    becomes(lambda: unhappy(platform.running, platform.objects), NO_ADDRESS)


def test_both_rules_share_one_cluster_with_the_settings_of_mode_envoy(configuration: dict) -> None:
    ours = cluster(configuration)
    (envoy,) = [
        each
        for each in envoy_config(*SETTINGS, HEALTH)["static_resources"]["clusters"]
        if each["name"] == "server"
    ]
    assert policy(configuration) == "least_request"
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


def test_what_is_retried_depends_on_the_method(configuration: dict) -> None:
    (routes,) = configuration["RoutesConfigDump"]["dynamic_route_configs"]
    (host,) = routes["route_config"]["virtual_hosts"]
    found = {}
    for route in host["routes"]:
        methods = [each["string_match"]["exact"] for each in route["match"].get("headers", [])]
        assert (route["route"]["timeout"], route["route"]["idle_timeout"]) == ("0s", "3s")
        found["".join(methods) or "other"] = route["route"]["retry_policy"]
    assert found.keys() == {"GET", "HEAD", "OPTIONS", "other"}
    # Not by a status: a 503 does not say whether the handler has run.
    assert found["GET"]["retry_on"] == "connect-failure,refused-stream,reset"
    assert found["other"]["retry_on"] == "connect-failure,refused-stream,reset-before-request"
    for retries in found.values():
        assert retries["num_retries"] == 3
        assert retries["retry_back_off"] == {"base_interval": "0.010s", "max_interval": "0.250s"}


def test_overload_manager_is_that_of_mode_envoy(configuration: dict) -> None:
    ours = configuration["BootstrapConfigDump"]["bootstrap"]["overload_manager"]
    envoy = envoy_config("overload.monitor=heap")["overload_manager"]
    for part in ("resource_monitors", "actions", "loadshed_points"):
        assert [each["name"] for each in ours[part]] == [each["name"] for each in envoy[part]]


def test_replicas_take_turns_and_tell_clients_nothing_of_their_load(platform: Any) -> None:
    client = Client(platform.url)
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
    assert ask(platform.url, path).status == status


def test_a_header_with_an_underscore_is_refused(platform: Any) -> None:
    assert ask(platform.url, "/hello", headers={"x_y": "1"}).status == 400


def test_clients_cannot_set_time_outs(platform: Any) -> None:
    headers = {"x-envoy-upstream-rq-timeout-ms": "1"}
    reply = ask(platform.url, "/work?ops=1000000", headers=headers)
    assert reply.status == 200


def test_a_request_has_one_line_in_the_access_log(platform: Any) -> None:
    ask(platform.url, "/hello?logged")
    (line,) = eventually(lambda: platform.running.logged("/hello?logged"), "a line for the request")
    assert (line["method"], line["status"]) == ("GET", 200)
    assert line["replica"] in ("127.0.0.2", "127.0.0.3")
