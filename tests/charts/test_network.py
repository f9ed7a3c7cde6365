"""Allowed connections according to the rendered NetworkPolicies and pod labels."""

import pytest

from stack.rendering import check_pods, render

pytestmark = pytest.mark.fast

TRAFFIC, ADMIN, LISTENER, STATS = 8080, 8081, 8080, 9902
BOTH = pytest.mark.parametrize("chart", ["gateway", "service"])
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
STRANGER = {"app.kubernetes.io/name": "stranger"}


def labels(chart: str, release: str = "corelane") -> dict[str, str]:
    objects = render(chart, release=release)
    return objects["Deployment"]["spec"]["template"]["metadata"]["labels"]


def selects(selector: dict, pod: dict[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= pod.items()


def passes(rules: list[dict], side: str, pod: dict[str, str], port: int) -> bool:
    """Applies rules to a pod in the same namespace. A missing section allows everything."""
    return any(
        ("ports" not in rule or port in {entry["port"] for entry in rule["ports"]})
        and (
            side not in rule
            or any(
                "namespaceSelector" not in peer and selects(peer.get("podSelector", {}), pod)
                for peer in rule[side]
            )
        )
        for rule in rules
    )


def enters(
    chart: str, pod: dict[str, str], port: int, *settings: str, release: str = "corelane"
) -> bool:
    policy = render(chart, *settings, release=release)["NetworkPolicy"]["spec"]
    return passes(policy["ingress"], "from", pod, port)


@BOTH
def test_what_is_not_listed_is_refused_in_both_directions(chart: str) -> None:
    policy = render(chart)["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert selects(policy["podSelector"], labels(chart))
    assert "NetworkPolicy" not in render(chart, "networkPolicy.enabled=false")


@pytest.mark.parametrize("release", ["corelane", "other"])
def test_a_service_takes_requests_from_gateways_alone(release: str) -> None:
    gateway = labels("gateway", release=release)
    for port in (TRAFFIC, ADMIN):
        assert enters("service", gateway, port)
        assert not enters("service", STRANGER, port)
        assert not enters("service", labels("service", release=release), port)


def test_a_service_takes_clients_that_are_listed() -> None:
    listed = r"networkPolicy.clients[0].podSelector.matchLabels.app\.kubernetes\.io/name=stranger"
    assert enters("service", STRANGER, TRAFFIC, listed)
    assert not enters("service", STRANGER, ADMIN, listed)


def test_gateway_takes_everybody_until_clients_are_listed() -> None:
    assert enters("gateway", STRANGER, LISTENER)
    listed = "networkPolicy.clients[0].podSelector.matchLabels.role=client"
    assert enters("gateway", {"role": "client"}, LISTENER, listed)
    assert not enters("gateway", STRANGER, LISTENER, listed)


@pytest.mark.parametrize(("chart", "port"), [("service", ADMIN), ("gateway", STATS)])
def test_metrics_are_for_monitoring_alone(chart: str, port: int) -> None:
    assert enters(chart, PROMETHEUS, port)
    assert not enters(chart, STRANGER, port)
    assert not enters(chart, PROMETHEUS, port, "networkPolicy.monitoring=null")


def test_prometheus_is_no_client_of_a_service() -> None:
    assert not enters("service", PROMETHEUS, TRAFFIC)


@pytest.mark.parametrize(
    ("settings", "open_ports"),
    [
        ([], {53}),
        (["presets.dns=false"], set()),
        (["presets.postgresql=true", "presets.https=true"], {53, 5432, 443}),
        (["egress[0].ports[0].port=4318"], {53, 4318}),
    ],
)
def test_a_service_reaches_what_it_is_given(settings: list[str], open_ports: set[int]) -> None:
    given = [f"networkPolicy.{setting}" for setting in settings]
    rules = render("service", *given)["NetworkPolicy"]["spec"].get("egress", [])
    ports = {53, 443, 4318, 5432}
    assert {port for port in ports if passes(rules, "to", STRANGER, port)} == open_ports


@pytest.mark.parametrize("release", ["corelane", "other"])
def test_gateway_reaches_the_api_server_and_replicas(release: str) -> None:
    rules = render("gateway")["NetworkPolicy"]["spec"]["egress"]
    server = labels("service", release=release)
    for port in (TRAFFIC, ADMIN):
        assert passes(rules, "to", server, port)
        assert not passes(rules, "to", STRANGER, port)
    for port in (443, 6443):
        assert passes(rules, "to", STRANGER, port)
    assert not passes(rules, "to", STRANGER, 53)


@pytest.mark.parametrize("release", ["corelane", "other"])
def test_gateway_reaches_dns_and_replicas(release: str) -> None:
    rules = render("gateway", "upstream.discovery=dns")["NetworkPolicy"]["spec"]["egress"]
    server = labels("service", release=release)
    for port in (53, TRAFFIC, ADMIN):
        assert passes(rules, "to", server, port)
    for port in (TRAFFIC, ADMIN, 443):
        assert not passes(rules, "to", STRANGER, port)


@BOTH
@pytest.mark.parametrize("settings", [[], ["networkPolicy.clients[0].podSelector.matchLabels.a=b"]])
def test_pods_of_helm_test_are_let_in(chart: str, settings: list[str]) -> None:
    pods = check_pods(chart)
    assert pods
    port = LISTENER if chart == "gateway" else ADMIN
    for pod in pods.values():
        assert enters(chart, pod["metadata"]["labels"], port, *settings)


@BOTH
def test_pods_of_helm_test_are_nobodys_backend(chart: str) -> None:
    objects = render(chart)
    for pod in check_pods(chart).values():
        for service in (
            objects["Service"]["spec"]["selector"],
            objects["Deployment"]["spec"]["selector"]["matchLabels"],
        ):
            assert not service.items() <= pod["metadata"]["labels"].items()
