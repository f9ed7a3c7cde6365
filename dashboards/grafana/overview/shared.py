"""What several rows of this dashboard use."""

from grafana.panels import Limits
from grafana.queries import GATEWAY

BURN = Limits(1, 14.4)
"""At 1 the budget lasts as long as its window; at 14.4 a fiftieth of 30 days' is gone in an hour."""


def burn(window: str) -> str:
    """Errors of each objective as a multiple of what it allows, of the worst gateway."""
    return (
        f"max by (slo) (job_slo:corelane_slo_errors:ratio_rate{window}{{{GATEWAY}}}"
        " / on (slo) group_left () (1 - slo:corelane_slo_objective:ratio))"
    )
