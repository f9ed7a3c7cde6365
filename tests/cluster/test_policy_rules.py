"""NetworkPolicies translated to nftables."""

import pytest

from cluster.policies import World, ruleset

pytestmark = pytest.mark.fast


def pod(
    name: str, address: str, *, node: str = "node1", space: str = "shop", **labels: str
) -> dict:
    ports = [
        {"name": "http", "containerPort": 8080},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
    ]
    return {
        "metadata": {"name": name, "namespace": space, "labels": {"app": name, **labels}},
        "spec": {"nodeName": node, "containers": [{"ports": ports}]},
        "status": {"podIP": address, "phase": "Running"},
    }


SERVER = pod("server", "10.0.1.1")
GATEWAY = pod("gateway", "10.0.2.1", node="node2")
WATCHER = pod("watcher", "10.0.1.9", space="monitoring")
NAMESPACES = [
    {"metadata": {"name": name, "labels": {"name": name}}} for name in ("shop", "monitoring")
]


def rules(*policies: dict, node: str = "node1") -> dict[str, list[str]]:
    world = World([SERVER, GATEWAY, WATCHER], NAMESPACES, list(policies))
    chains: dict[str, list[str]] = {}
    for line in map(str.strip, ruleset(world, node).splitlines()):
        if line.startswith("chain "):
            name = line.split()[1]
            chains[name] = []
        elif line != "}" and chains:
            chains[name].append(line)
    return chains


def policy(selected: str, space: str = "shop", **spec: object) -> dict:
    selector = {"matchLabels": {"app": selected}} if selected else {}
    return {"metadata": {"namespace": space}, "spec": {"podSelector": selector, **spec}}


def ingress(*of: dict, selected: str = "server") -> dict:
    return policy(selected, policyTypes=["Ingress"], ingress=list(of))


def test_a_policy_without_rules_drops_all_but_answers() -> None:
    chains = rules(ingress())
    assert chains["ingress_10_0_1_1"] == ["drop"]
    assert "ip daddr vmap { 10.0.1.1 : jump ingress_10_0_1_1 }" in chains["forward"]
    assert chains["forward"].index("ct state established,related accept") == 1


def test_peers_and_ports_of_one_rule_are_both_needed() -> None:
    peer = {"podSelector": {"matchLabels": {"app": "gateway"}}}
    allowed = ingress(
        {"from": [peer], "ports": [{"port": "http"}, {"port": 9000, "endPort": 9010}]}
    )
    assert rules(allowed)["ingress_10_0_1_1"] == [
        "ip saddr 10.0.2.1 tcp dport 8080 return",
        "ip saddr 10.0.2.1 tcp dport 9000-9010 return",
        "drop",
    ]


def test_peers_of_other_namespaces_are_selected_by_their_labels() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    chain = rules(ingress({"from": [peer]}))["ingress_10_0_1_1"]
    assert chain == ["ip saddr 10.0.1.9 return", "drop"]
    both = {**peer, "podSelector": {"matchLabels": {"app": "gateway"}}}
    assert rules(ingress({"from": [both]}))["ingress_10_0_1_1"] == ["drop"]


def test_blocks_have_exceptions() -> None:
    block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}
    assert rules(ingress({"from": [block]}))["ingress_10_0_1_1"] == [
        "ip saddr 10.0.0.0/8 ip saddr != { 10.9.0.0/16 } return",
        "drop",
    ]


def test_egress_knows_a_port_by_the_name_that_the_other_pod_gives_it() -> None:
    ports = [{"port": "dns", "protocol": "UDP"}, {"port": "unknown"}]
    peer = {"podSelector": {"matchLabels": {"app": "server"}}}
    out = policy("gateway", policyTypes=["Egress"], egress=[{"to": [peer], "ports": ports}])
    assert rules(out, node="node2")["egress_10_0_2_1"] == [
        "ip daddr 10.0.1.1 udp dport 53 return",
        "drop",
    ]
