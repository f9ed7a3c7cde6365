"""What can be chosen of a stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from local.settings import REPOSITORY

RULES = REPOSITORY / "dashboards" / "rules"


@dataclass(frozen=True)
class Options:
    """A stage: how many replicas, how often Prometheus looks, and which parts are there."""

    name: str = "stage"
    """Of the instance; also the label `namespace` of all its targets."""
    replicas: int = 2
    """Behind the gateway, each with one lane."""
    edge: bool = True
    """One more replica, not behind the gateway: two lanes, TLS, placement least-loaded, and
    PostgreSQL. It shows the series that only those have."""
    kubernetes: bool = True
    """An API server, which the gateway's agent and the node's agent ask."""
    interval: float = 1.0
    """Seconds between two scrapes, and between two evaluations of groups that say nothing else."""
    rules: Sequence[Path] = (RULES / "*.rules.yaml",)
    """Files of rules; the last part of a path may be a pattern."""
    pace: float | None = None
    """Seconds between two evaluations of every group of rules; none leaves each its own."""
    alertmanagers: Sequence[str] = ()
    """Addresses, as 127.0.0.1:9093: alerts are sent there, and they are scraped."""
    server: Sequence[str] = ()
    """Further flags of every replica."""
    servers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further flags of single replicas, by name; they come last."""
    gateway: Mapping[str, object] = field(default_factory=dict)
    """Values of the gateway's chart, laid over those of the stage."""
    tuner: Sequence[str] = ()
    """Further flags of the node's agent."""
