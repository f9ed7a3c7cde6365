"""The options of a stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from local.settings import REPOSITORY

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
