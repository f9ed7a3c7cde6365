"""The options of a stage, and where each of its parts listens. TEST_PORTS=LOW-HIGH is the range of ports."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from local.topology import Replica, Topology
from stack import REPOSITORY
from stack.ports import free_ports

RULES = REPOSITORY / "dashboards" / "rules"

REPLICAS = 2
"""Behind the gateway, each with one lane."""


@dataclass(frozen=True)
class Options:
    """The options of a stage."""

    name: str
    """Of the instance; also the label `namespace` of all its targets."""
    interval: float
    """Seconds between two scrapes, and between two evaluations of groups without their own interval."""
    rules: Sequence[Path] = (RULES / "*.rules.yaml",)
    """Files of rules; the last part of a path may be a pattern."""
    pace: float | None = None
    """Seconds between two evaluations of every group of rules, instead of each group's own interval."""
    servers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further flags of replicas, by name; they come last."""


EDGE = "edge-0"
"""The replica for direct clients."""


@dataclass(frozen=True)
class Plan:
    """The topology of `make up`, and the ports of the other parts of a stage."""

    topology: Topology
    edge: Replica
    gateway_agent: int
    gateway_tls: int
    node_tuning: int
    """The first node's agent; that of the other node has the next port."""
    collector: int
    kubernetes: int


def draw() -> Plan:
    """Selects free ports, and distributes the replicas over the CPUs."""
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
