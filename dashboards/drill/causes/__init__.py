"""The causes of alerts: a function for each drill."""

from dashboards.drill.causes import (
    certificates,
    cluster,
    database,
    gateway,
    lanes,
    monitoring,
    nodes,
    replicas,
    slo,
)
from dashboards.drill.drills import TABLE

__all__ = [
    "TABLE",
    "certificates",
    "cluster",
    "database",
    "gateway",
    "lanes",
    "monitoring",
    "nodes",
    "replicas",
    "slo",
]
