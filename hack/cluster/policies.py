"""Enforces NetworkPolicies on the nodes: CNI's plugins do not.

One process watches the API server and replaces the rules of a node whenever they change.
"""

import json
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Mapping

from cluster import network, records
from cluster.api import Api
from cluster.plan import NODES
from cluster.policy_rules import World, living, ruleset
from cluster.settings import Settings

WATCHED = {
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
}


def main(settings: Settings) -> int:
    """Runs until it is killed. `up` starts it."""
    processes = records.Record(settings.state).content["processes"]
    anchors = {name: processes[name]["pid"] for name in NODES}
    api = Api.of(settings.state)
    changed = threading.Event()
    for path in WATCHED.values():
        threading.Thread(target=_watch, args=(api, path, changed), daemon=True).start()
    applied: dict[str, str] = {}
    while True:
        changed.wait()
        changed.clear()
        if not _apply(api, anchors, applied):
            time.sleep(0.5)
            changed.set()


def _watch(api: Api, path: str, changed: threading.Event) -> None:
    while True:
        try:
            for _ in api.changes(path):
                changed.set()
        except (urllib.error.URLError, OSError) as error:
            print(f"watch of {path}: {error}", file=sys.stderr, flush=True)
        # The next watch does not report changes between the two.
        changed.set()
        time.sleep(0.5)


def _apply(api: Api, anchors: Mapping[str, int], applied: dict[str, str]) -> bool:
    """Updates the rules of every node; returns False if that must be repeated."""
    replies = {name: api.get(path) for name, path in WATCHED.items()}
    if None in replies.values():
        return False
    items = {name: json.loads(reply)["items"] for name, reply in replies.items()}
    world = World(living(items["pods"]), items["namespaces"], items["policies"])
    for node, pid in anchors.items():
        rules = ruleset(world, node)
        if applied.get(node) == rules:
            continue
        argv = [*network.inside(pid), "nft", "--file", "-"]
        result = subprocess.run(argv, input=rules, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            print(f"{node}: {result.stderr}\n{rules}", file=sys.stderr, flush=True)
            return False
        applied[node] = rules
    return True
