"""Enforces NetworkPolicies on the nodes, because the CNI plugins do not.

One process watches the API server and replaces a node's rules whenever they change. Pure functions
translate policies into one node's nftables rules. A pod that a policy selects gets a chain per
direction. A packet that no rule of the chain lets return is dropped (kubernetes.io, "Network
Policies").
"""

import json
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cluster import places, records
from cluster.api import Api
from cluster.plan import NODES
from cluster.settings import Settings

TABLE = "corelane_policies"

# Kubernetes objects, as parsed JSON.
Object = dict


@dataclass(frozen=True)
class World:
    pods: list[Object]
    namespaces: list[Object]
    policies: list[Object]
    labels: dict[str, dict[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        known = {each["metadata"]["name"]: _labels(each) for each in self.namespaces}
        object.__setattr__(self, "labels", known)

    def selected(self, namespace: str, selector: Object) -> list[Object]:
        return [
            pod
            for pod in self.pods
            if pod["metadata"]["namespace"] == namespace and matches(selector, _labels(pod))
        ]


def ruleset(world: World, node: str) -> str:
    """A node's complete table for `nft -f`, which atomically replaces the old table."""
    chains, jumps = [], []
    for direction, side in (("Egress", "saddr"), ("Ingress", "daddr")):
        entries = []
        for pod in world.pods:
            policies = list(_isolating(world, pod, direction))
            if pod["spec"].get("nodeName") == node and policies:
                name = f"{direction.lower()}_{_address(pod).replace('.', '_')}"
                entries.append(f"{_address(pod)} : jump {name}")
                chains.append((name, [*_rules(world, pod, policies, direction), "drop"]))
        if entries:
            jumps.append(f"ip {side} vmap {{ {', '.join(entries)} }}")
    # Responses belong to a connection that was allowed.
    forward = ["type filter hook forward priority 10; policy accept;"]
    forward += ["ct state established,related accept", *jumps]
    lines = [f"table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{"]
    for name, rules in [*chains, ("forward", forward)]:
        lines += [f"  chain {name} {{", *(f"    {rule}" for rule in rules), "  }"]
    return "\n".join([*lines, "}", ""])


def living(pods: Iterable[Object]) -> list[Object]:
    """Returns the pods with their own address; a pod that has terminated has no address."""
    return [
        pod
        for pod in pods
        if pod["status"].get("podIP")
        and not pod["spec"].get("hostNetwork")
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def matches(selector: Object, labels: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _fulfils(each, labels) for each in selector.get("matchExpressions") or ()
    )


def _fulfils(expression: Object, labels: dict[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
    return value is None


def _isolating(world: World, pod: Object, direction: str) -> Iterator[Object]:
    for policy in world.policies:
        spec = policy["spec"]
        same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if same and direction in spec["policyTypes"] and matches(spec["podSelector"], _labels(pod)):
            yield policy


def _rules(world: World, pod: Object, policies: list[Object], direction: str) -> Iterator[str]:
    side, peers_key = ("saddr", "from") if direction == "Ingress" else ("daddr", "to")
    for policy in policies:
        for rule in policy["spec"].get(direction.lower()) or ():
            peers = rule.get(peers_key)
            ports = rule.get("ports")
            namespace = policy["metadata"]["namespace"]
            for words, targets in _peers(world, namespace, peers, side):
                # The destination pod defines the names of ports.
                named = [pod] if direction == "Ingress" else targets
                for port in _ports(ports, named):
                    yield " ".join(part for part in (words, port, "return") if part)


def _peers(
    world: World, namespace: str, peers: list[Object] | None, side: str
) -> Iterator[tuple[str, list[Object]]]:
    if not peers:
        yield "", world.pods
    for peer in peers or ():
        if block := peer.get("ipBlock"):
            words = f"ip {side} {block['cidr']}"
            if block.get("except"):
                words += f" ip {side} != {{ {', '.join(block['except'])} }}"
            # The cluster has no IPv6.
            if ":" not in block["cidr"]:
                yield words, []
            continue
        for pod in _peer_pods(world, namespace, peer):
            yield f"ip {side} {_address(pod)}", [pod]


def _peer_pods(world: World, namespace: str, peer: Object) -> list[Object]:
    namespaces = [namespace]
    if (selector := peer.get("namespaceSelector")) is not None:
        namespaces = [name for name, labels in world.labels.items() if matches(selector, labels)]
    selector = peer.get("podSelector") or {}
    return [pod for name in namespaces for pod in world.selected(name, selector)]


def _ports(ports: list[Object] | None, named: list[Object]) -> Iterator[str]:
    if not ports:
        yield ""
    for port in ports or ():
        protocol = port.get("protocol", "TCP").lower()
        number = port.get("port")
        if number is None:
            yield f"meta l4proto {protocol}"
        elif isinstance(number, int):
            last = port.get("endPort")
            yield f"{protocol} dport {number}-{last}" if last else f"{protocol} dport {number}"
        else:
            for found in sorted(
                {each for pod in named for each in _numbers(pod, number, protocol)}
            ):
                yield f"{protocol} dport {found}"


def _numbers(pod: Object, name: str, protocol: str) -> Iterator[int]:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP").lower() == protocol:
                yield port["containerPort"]


def _labels(thing: Object) -> dict[str, str]:
    return thing["metadata"].get("labels") or {}


def _address(pod: Object) -> str:
    return pod["status"]["podIP"]


WATCHED = {
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
}


def main(settings: Settings) -> int:
    """Runs until killed; started by `up`."""
    record = records.Record(settings.state)
    api = Api.of(settings.state)
    changed = threading.Event()
    for path in WATCHED.values():
        threading.Thread(target=_watch, args=(api, path, changed), daemon=True).start()
    applied: dict[str, str] = {}
    while True:
        changed.wait()
        changed.clear()
        if not _apply(api, record, applied):
            time.sleep(0.5)
            changed.set()


def _watch(api: Api, path: str, changed: threading.Event) -> None:
    while True:
        try:
            for _ in api.changes(path):
                changed.set()
        except (urllib.error.URLError, OSError) as error:
            print(f"watch of {path}: {error}", file=sys.stderr, flush=True)
        # The next watch does not report changes that were made after this watch ended.
        changed.set()
        time.sleep(0.5)


def _apply(api: Api, record: records.Record, applied: dict[str, str]) -> bool:
    """Updates every node's rules; returns False if the caller must retry."""
    replies = {name: api.get(path) for name, path in WATCHED.items()}
    if None in replies.values():
        return False
    items = {name: json.loads(reply)["items"] for name, reply in replies.items()}
    world = World(living(items["pods"]), items["namespaces"], items["policies"])
    for node in NODES:
        rules = ruleset(world, node)
        if applied.get(node) == rules:
            continue
        argv = [*places.inside(record, node), "nft", "--file", "-"]
        result = subprocess.run(argv, input=rules, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            print(f"{node}: {result.stderr}\n{rules}", file=sys.stderr, flush=True)
            return False
        applied[node] = rules
    return True
