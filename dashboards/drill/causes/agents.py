"""Causes in agents: changed or rejected node settings, gateway faults, and a missing API server."""

import itertools
import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place
from dashboards.live.assemble import LIMIT
from stack import node
from stack.node import Tree
from stack.process import Process

BACKLOG = "net.core.netdev_max_backlog"

WANTED = ("--profile=custom", f"--knobs={BACKLOG}=5000")

NODE = "node-1"

GATEWAY_AGENT = {"service": "gateway", "pod": "gateway"}


def _tree(place: Place) -> Tree:
    return node.make(place.folder / "node", node.node())


def _prepared(place: Place, tree: Tree, *flags: str, within: Sequence[str] = ()) -> Process:
    told = ["--agent.mode=apply", f"--root={tree.root}", f"--journal={tree.journal}", *flags]
    agent = place.tuner(NODE, *WANTED, *told, within=within)
    place.until(agent.ready, "the node is prepared")
    return agent


@drill(
    "CorelaneNodeKnobDrift",
    how="a sysctl of a prepared node is changed once, and the agent restores it",
)
def knob_drift(place: Place) -> Iterator[Labels]:
    tree = _tree(place)
    _prepared(place, tree)
    # Prometheus ignores the first sample of a series when it computes an increase.
    seen = f'corelane_node_knob_drift_total{{namespace="{place.namespace}", knob="{BACKLOG}"}}'
    place.until(lambda: place.watch.query(seen), "the setting is scraped")
    place.begins()
    tree.drift(BACKLOG, "300")
    yield {"node": NODE, "knob": BACKLOG}


@drill(
    "CorelaneNodeNotPrepared",
    how="a sysctl is changed repeatedly on a node whose agent only reports, then restored",
)
def node_not_prepared(place: Place) -> Iterator[Labels]:
    tree = _tree(place)
    _prepared(place, tree, "--agent.drift=report")
    place.begins()
    values = itertools.cycle(("300", "400"))
    with place.again(lambda: tree.drift(BACKLOG, next(values))):
        yield {"node": NODE}
    tree.drift(BACKLOG, "5000")


@drill(
    "CorelaneNodeKnobFailed",
    how="a sysctl is changed while the agent cannot write its file (mount namespace), then the file becomes writable",
)
def knob_failed(place: Place) -> Iterator[Labels]:
    tree = _tree(place)
    agent = _prepared(place, tree, within=("unshare", "--mount"))
    file = tree.root / node.sysctl(BACKLOG)
    place.begins()
    _mount(agent, 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"', file)
    file.write_text("300\n")
    yield {"node": NODE, "knob": BACKLOG}
    _mount(agent, 'umount "$1"', file)


def _mount(agent: Process, script: str, file: Path) -> None:
    within = ["nsenter", "--mount", f"--target={agent.pid}", "sh", "-ec"]
    subprocess.run([*within, script, "sh", file], check=True, capture_output=True)


@drill("CorelaneNodePassFailed", how="the agent's journal is damaged, then restored")
def pass_failed(place: Place) -> Iterator[Labels]:
    tree = _tree(place)
    _prepared(place, tree)
    journal = tree.journal / "journal.json"
    whole = journal.read_text()
    place.begins()
    journal.write_text("{")
    yield {"node": NODE}
    journal.write_text(whole)


@drill("CorelaneNodeTunerDown", how="the agent is paused with SIGSTOP, then resumed")
def tuner_stopped(place: Place) -> Iterator[Labels]:
    agent = _prepared(place, _tree(place))
    place.begins()
    agent.signal(signal.SIGSTOP)
    yield {"node": NODE}
    agent.signal(signal.SIGCONT)


@drill(
    "CorelaneGatewayAgentDown",
    how="the gateway's agent is killed with SIGKILL, then restarts",
    whole=True,
)
def gateway_agent_killed(place: Place) -> Iterator[Labels]:
    agent = place.platform.parts["gateway-agent"]
    place.begins()
    agent.kill()
    yield GATEWAY_AGENT
    agent.start()


@drill(
    "CorelaneEndpointsStale", how="the API server is paused with SIGSTOP, then resumed", whole=True
)
def api_server_stopped(place: Place) -> Iterator[Labels]:
    server = place.platform.parts["kube-apiserver"]
    place.begins()
    server.signal(signal.SIGSTOP)
    yield {**GATEWAY_AGENT, "envoy_cluster_name": "server"}
    server.signal(signal.SIGCONT)


@drill(
    "CorelaneRoutesNotApplied",
    how="Envoy rejects routes that name a host twice, then the duplicate is removed",
    whole=True,
)
def routes_rejected(place: Place) -> Iterator[Labels]:
    api, namespace = place.platform.cluster.api, place.platform.cluster.namespace
    host = {"domains": ["*"], "routes": []}
    limits = "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"

    def data(*names: str) -> dict[str, str]:
        hosts = [{"name": name, **host} for name in names]
        routes = {"name": "ingress", "virtual_hosts": hosts}
        found = {"clusters": [], "routes": routes}
        found["rate-limits"] = {"@type": limits, "stat_prefix": "ingress"}
        return {f"{name}.json": json.dumps(value) for name, value in found.items()}

    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    api.create(maps, {"metadata": {"name": "routes"}, "data": data("one")})
    place.routed(f"{namespace}/routes", "gateway-routes")
    place.begins()
    api.change(f"{maps}/routes", {"data": data("one", "two")})
    yield {"service": "gateway", "pod": "gateway-routes"}
    api.change(f"{maps}/routes", {"data": data("one")})
    api.call("DELETE", f"{maps}/routes")


@drill(
    "CorelaneEndpointsOverLimit",
    how="an EndpointSlice above the agent's limit is written repeatedly, then deleted",
    whole=True,
)
def slice_above_limit(place: Place) -> Iterator[Labels]:
    cluster = place.platform.cluster
    # Unassigned addresses (RFC 5737), which never reach Envoy.
    addresses = [f"198.51.100.{number}" for number in range(4 * LIMIT + 1)]
    place.begins()
    cluster.slice("large", addresses)
    beats = itertools.count()
    with place.again(lambda: cluster.touch("large", next(beats)), pause=1.0):
        yield {**GATEWAY_AGENT, "envoy_cluster_name": "server"}
    cluster.remove("large")


@drill(
    "CorelanePodNotPinned",
    how="the cgroup of a pod with exclusive CPUs gets a CFS quota, which is then removed",
    whole=True,
)
def pod_with_quota(place: Place) -> Iterator[Labels]:
    platform = place.platform
    container = platform.containers["server-0"]
    place.begins()
    platform.tree.put(container, quota=50_000)
    yield {"pod": "server-0", "check": "no-cfs-quota", "state": "failed"}
    platform.tree.put(container)


@drill(
    "CorelanePodNotPinned",
    how="another pod is allowed to use the CPU of a pod with exclusive CPUs, then no longer allowed",
    whole=True,
)
def pod_with_company(place: Place) -> Iterator[Labels]:
    platform = place.platform
    other = platform.containers["gateway"]
    cpu = platform.containers["server-0"].cpus
    place.begins()
    platform.tree.put(replace(other, cpus=f"{cpu},{other.cpus}"))
    yield {"pod": "server-0", "check": "cpus-exclusive", "state": "failed"}
    platform.tree.put(other)
