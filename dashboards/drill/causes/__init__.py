"""The causes of alerts: a function for each drill."""

from dashboards.drill.causes import agents, autoscaler, certificates, gateway, monitoring, replicas
from dashboards.drill.drills import TABLE

__all__ = [
    "TABLE",
    "agents",
    "autoscaler",
    "certificates",
    "gateway",
    "monitoring",
    "replicas",
]
