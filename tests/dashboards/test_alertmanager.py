"""Routing and inhibition of dashboards/alertmanager, tested with a real Alertmanager."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import HOST, REPOSITORY, becomes
from stack.http import ask, replies
from stack.ports import free_ports
from stack.process import running
from stack.prometheus import alertmanager

CONFIGURATION = REPOSITORY / "dashboards" / "alertmanager" / "alertmanager.yaml"
Fire = Callable[..., Callable[[], list[dict]]]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    port = free_ports()
    url = f"http://{HOST}:{port}"
    argv = alertmanager(folder, port, CONFIGURATION)
    with running("alertmanager", argv, folder, lambda: replies(url, "/-/ready")):
        yield url


@pytest.fixture
def fire(address: str, request: pytest.FixtureRequest) -> Fire:
    """Fires alerts in a namespace of the test, and returns a function that reads their state."""
    namespace = request.node.name

    def look() -> list[dict]:
        found = json.loads(ask(address, "/api/v2/alerts").body)
        return [it for it in found if it["labels"]["namespace"] == namespace]

    def post(*alerts: dict[str, str]) -> Callable[[], list[dict]]:
        body = json.dumps([{"labels": {"namespace": namespace, **labels}} for labels in alerts])
        headers = {"Content-Type": "application/json"}
        reply = ask(address, "/api/v2/alerts", "POST", body=body.encode(), headers=headers)
        assert reply.status == 200, reply.body
        becomes(lambda: len(look()), len(alerts))
        return look

    return post


def alert(name: str, severity: str, **labels: str) -> dict[str, str]:
    return {"alertname": name, "severity": severity, **labels}


def name(alert: dict) -> tuple[str, str]:
    return alert["labels"]["alertname"], alert["labels"]["severity"]


def quiet(alerts: list[dict]) -> set[tuple[str, str]]:
    return {name(it) for it in alerts if it["status"]["inhibitedBy"]}


def test_each_severity_has_its_receiver(fire: Fire) -> None:
    look = fire(
        alert("CorelaneRouteErrors", "critical", route="/work"),
        alert("CorelaneStall", "warning", pod="server-0", route="/hello"),
    )
    assert {name(it): [to["name"] for to in it["receivers"]] for it in look()} == {
        ("CorelaneRouteErrors", "critical"): ["critical"],
        ("CorelaneStall", "warning"): ["warning"],
    }


def test_a_critical_alert_keeps_warnings_of_its_pod_quiet_and_nothing_else(fire: Fire) -> None:
    look = fire(
        alert("CorelaneDatabaseDown", "critical", pod="server-0"),
        alert("CorelaneDatabaseBusy", "warning", pod="server-0"),
        alert("CorelaneCertificateExpiry", "critical", pod="server-0"),
        alert("CorelaneShedding", "warning", pod="server-1"),
        alert("CorelaneCapacityShort", "warning"),
    )
    becomes(lambda: quiet(look()), {("CorelaneDatabaseBusy", "warning")})


def test_a_critical_alert_keeps_warnings_of_its_route_quiet_and_nothing_else(fire: Fire) -> None:
    look = fire(
        alert("CorelaneRouteErrors", "critical", route="/work"),
        alert("CorelaneRouteErrors", "warning", route="/work"),
        alert("CorelaneRouteSlow", "warning", route="/hello"),
    )
    becomes(lambda: quiet(look()), {("CorelaneRouteErrors", "warning")})


def test_the_slow_burn_of_what_burns_fast_is_quiet(fire: Fire) -> None:
    look = fire(
        alert("CorelaneGatewayErrors", "critical", service="gateway", slo="availability"),
        alert("CorelaneGatewayErrors", "warning", service="gateway", slo="availability"),
        alert("CorelaneGatewaySlow", "warning", service="gateway", slo="latency"),
    )
    becomes(lambda: quiet(look()), {("CorelaneGatewayErrors", "warning")})


def test_a_route_of_another_service_is_heard(fire: Fire) -> None:
    look = fire(
        alert("CorelaneRouteErrors", "critical", service="shop", route="/cart"),
        alert("CorelaneRouteErrors", "warning", service="shop", route="/cart"),
        alert("CorelaneRouteSlow", "warning", service="pay", route="/cart"),
    )
    becomes(lambda: quiet(look()), {("CorelaneRouteErrors", "warning")})


def test_an_agent_that_is_down_keeps_its_own_warnings_quiet_and_not_those_of_envoy(
    fire: Fire,
) -> None:
    look = fire(
        alert("CorelaneGatewayAgentDown", "warning", service="gateway", pod="gateway-0"),
        alert("CorelaneEndpointsStale", "warning", service="gateway", pod="gateway-0"),
        alert("CorelaneGatewayRetries", "warning", service="gateway", pod="gateway-0"),
    )
    becomes(lambda: quiet(look()), {("CorelaneEndpointsStale", "warning")})


def test_a_gateway_that_is_down_keeps_warnings_of_envoy_quiet_and_not_those_of_its_agent(
    fire: Fire,
) -> None:
    look = fire(
        alert("CorelaneGatewayDown", "warning", service="gateway", pod="gateway-0"),
        alert("CorelaneEndpointsStale", "warning", service="gateway", pod="gateway-0"),
        alert("CorelaneGatewayRetries", "warning", service="gateway", pod="gateway-0"),
    )
    becomes(lambda: quiet(look()), {("CorelaneGatewayRetries", "warning")})


def test_what_a_pod_that_is_down_last_said_is_quiet(fire: Fire) -> None:
    look = fire(
        alert("CorelaneReplicaDown", "warning", service="server", pod="server-0"),
        alert("CorelaneLaneSaturated", "warning", service="server", pod="server-0", lane="0"),
        alert("CorelaneDatabaseDown", "critical", service="server", pod="server-0"),
        alert("CorelaneOutlierEjections", "warning", service="gateway", pod="gateway"),
    )
    down = ("CorelaneReplicaDown", "warning")
    becomes(lambda: quiet(look()), {("CorelaneLaneSaturated", "warning"), down})
