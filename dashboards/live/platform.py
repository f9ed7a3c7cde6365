"""A platform: options, ports, parts by name, and operations.

TEST_PORTS=LOW-HIGH is the range of ports.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dashboards.live import node
from local import render
from local.topology import Replica, Topology
from stack import HOST, REPOSITORY
from stack.ports import free_ports
from stack.process import Process, wait_for
from stack.replica import Server

RULES = REPOSITORY / "dashboards" / "rules"

REPLICAS = 2


@dataclass(frozen=True)
class Options:
    name: str
    """Instance name, which is also the `namespace` label of all its targets."""
    interval: float
    """Seconds between scrapes, and between evaluations of groups without their own interval."""
    rules: Sequence[Path] = (RULES / "*.rules.yaml",)
    pace: float | None = None
    """Seconds between evaluations of every rule group, in place of each group's own interval."""
    servers: Mapping[str, Sequence[str]] = field(default_factory=dict)


EDGE = "edge-0"


@dataclass(frozen=True)
class Plan:
    topology: Topology
    edge: Replica
    gateway_agent: int
    gateway_tls: int
    node_tuning: int
    """The port of the first node's agent. The second agent uses the next port."""
    collector: int
    kubernetes: int


def draw() -> Plan:
    """Picks free ports, and distributes the replicas across the CPUs."""
    cpus = sorted(os.sched_getaffinity(0))
    count = REPLICAS + 1
    first = free_ports(2 * count + 14, "0.0.0.0")
    own = first + 2 * count
    names = [*(f"server-{index}" for index in range(REPLICAS)), EDGE]
    replicas = [
        Replica(name, cpus[index % len(cpus)], first + 2 * index, first + 2 * index + 1)
        for index, name in enumerate(names)
    ]
    topology = Topology(
        gateway_port=own,
        envoy_admin_port=own + 1,
        gateway_stats_port=own + 2,
        prometheus_port=own + 3,
        pinned=REPLICAS <= len(cpus),
        replicas=tuple(replicas[:REPLICAS]),
        database="postgres",
        postgres_port=own + 4,
    )
    return Plan(topology, replicas[-1], own + 5, own + 6, own + 7, own + 9, own + 10)


FIRST = ("etcd", "kube-apiserver", "postgres")

GATEWAY, AGENT = "gateway", "gateway-agent"

CPUS = {"server-0": "0", "server-1": "1", EDGE: "2,3", GATEWAY: "4,5"}
"""Each pod's exclusive CPUs on the node, in the format of cpuset(7)."""


@dataclass
class Platform:
    options: Options
    run: Path
    plan: Plan
    environment: dict[str, str]
    parts: dict[str, Process]
    tree: node.Tree
    cluster: node.Cluster
    containers: dict[str, node.Container] = field(default_factory=dict)

    @property
    def gateway(self) -> str:
        return f"http://{HOST}:{self.plan.topology.gateway_port}"

    @property
    def prometheus(self) -> str:
        return f"http://{HOST}:{self.plan.topology.prometheus_port}"

    @property
    def servers(self) -> dict[str, Server]:
        return {name: part for name, part in self.parts.items() if isinstance(part, Server)}

    @property
    def gated(self) -> dict[str, Server]:
        names = [replica.name for replica in self.plan.topology.replicas]
        return {name: self.servers[name] for name in names}

    @property
    def token(self) -> str:
        return render.clear_token(self.run).read_text()

    def start(self) -> None:
        """Starts everything and waits until all parts respond."""
        names = {*FIRST, *self.servers}
        first = [part for part in self.parts.values() if part.name in names]
        for part in first:
            part.start(wait=False)
        wait_for(first)
        self.cluster.prepare()
        for name in self.servers:
            self._announce(name)
        # Envoy does not start without the agent's file.
        self.parts[AGENT].start()
        rest = [part for part in self.parts.values() if not part.running]
        for part in rest:
            part.start(wait=False)
        wait_for(rest)
        self.put_pod(GATEWAY)

    def _announce(self, name: str) -> None:
        self.put_pod(name)
        if name in self.gated:
            self.endpoint(name)

    def put_pod(self, name: str) -> None:
        pid, cpus = self.parts[name].pid, CPUS[name]
        if name not in self.containers:
            container = self.cluster.pod(name, cpus, pid)
        else:
            before = self.containers[name]
            self.tree.remove(before)
            container = node.Container(before.pod, before.uid, before.id, cpus, pid)
        self.containers[name] = container
        self.tree.put(container)

    def endpoint(self, name: str, *, serving: bool = True, ending: bool = False) -> None:
        replica = self.servers[name]
        ports = (replica.port, replica.admin_port)
        self.cluster.endpoint(name, ports, serving=serving, ending=ending)

    def restart(self, name: str, *more: object) -> None:
        """Restarts a replica that was killed or stopped, with additional flags."""
        self.servers[name].start(*more)
        self._announce(name)

    def drain(self, name: str) -> None:
        self.endpoint(name, ending=True)
        self.servers[name].stop()
        self.endpoint(name, serving=False, ending=True)
