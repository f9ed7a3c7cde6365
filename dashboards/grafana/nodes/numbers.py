"""Whether the nodes are as they should be, in eight numbers."""

from grafana.nodes.shared import APPLIED, AT
from grafana.panels import Limits, Never, Says, number
from grafana.queries import POD, now

DIFFERS = f'corelane_node_knob_settings{{{AT}, state="differs"}}'

ROWS = (
    (
        3,
        (
            (
                3,
                number(
                    "Is every node looked at?",
                    Says(
                        "Share of the agents that answer and have looked within 15 minutes.",
                        good="100%",
                        bad="below: nothing here is known of those nodes",
                        then="dashboards/runbooks/node-tuner-down.md",
                    ),
                    "percentunit",
                    now(
                        f"(count(time() - corelane_node_last_pass_timestamp_seconds{{{AT}}} < 900) or vector(0))"
                        f' / count(up{{job="node-tuning", {AT}}})'
                    ),
                    limits=Limits(1, 0.5, falling=True),
                    empty="no node tuner",
                    decimals=0,
                ),
            ),
            (
                3,
                number(
                    "Are nodes not prepared?",
                    Says(
                        "Nodes in mode apply on which a setting differs from the profile or was refused.",
                        good="0",
                        bad="above 0 for longer than a roll-out",
                        then="*Which settings are not as wanted?*",
                    ),
                    "none",
                    now(
                        f"sum(corelane_node_prepared{{{AT}}} == bool 0 and {APPLIED}) or vector(0)"
                    ),
                    limits=Never(),
                ),
            ),
            (
                3,
                number(
                    "How many settings differ?",
                    Says(
                        "Settings that are not what the profile wants, on nodes in mode apply.",
                        good="0",
                        bad="above 0: somebody else writes them",
                        then="*Which settings are not as wanted?*",
                    ),
                    "none",
                    now(f"sum({DIFFERS} and {APPLIED}) or vector(0)"),
                    limits=Limits(1, 1e9),
                ),
            ),
            (
                3,
                number(
                    "How many are refused?",
                    Says(
                        "Settings that the kernel would not take.",
                        good="0",
                        bad="any: the profile does not fit this kernel or machine",
                        then="dashboards/runbooks/node-not-prepared.md",
                    ),
                    "none",
                    now(f'sum(corelane_node_knob_settings{{{AT}, state="failed"}}) or vector(0)'),
                    limits=Never(),
                ),
            ),
            (
                3,
                number(
                    "Did somebody change it?",
                    Says(
                        "Settings that somebody else has changed within six hours.",
                        good="0",
                        bad="any: two masters of one node",
                        then="dashboards/runbooks/node-drift.md",
                    ),
                    "none",
                    now(f"sum(increase(corelane_node_knob_drift_total{{{AT}}}[6h])) or vector(0)"),
                    limits=Never(),
                    decimals=0,
                ),
            ),
            (
                3,
                number(
                    "How many are not proven?",
                    Says(
                        "Pods of Corelane for which a check of their pinning failed, or could "
                        "not be made.",
                        good="0",
                        bad="any: its lanes share their CPUs, are throttled, or nobody knows",
                        then="*Which proofs fail?*",
                    ),
                    "none",
                    now(f"sum(corelane_node_pods{{{AT}}} - corelane_node_pods_proven{{{AT}}})"),
                    limits=Never(),
                    empty="no node tuner",
                ),
            ),
            (
                3,
                number(
                    "Are servers throttled?",
                    Says(
                        "Share of the periods of the CFS quota in which a server was throttled, "
                        "within five minutes; the "
                        "worst server.",
                        good="0, or no quota at all",
                        bad="any where lanes are pinned: a quota stops a lane in mid-request",
                        then="docs/node-tuning.md: whole CPUs and Kubernetes 1.33, or no CPU limit",
                    ),
                    "percentunit",
                    now(
                        f"max(rate(corelane_cpu_throttled_periods_total{{{POD}}}[5m])"
                        f" / clamp_min(rate(corelane_cpu_periods_total{{{POD}}}[5m]), 1e-9))"
                    ),
                    limits=Limits(0.001, 0.01),
                    empty="no quota",
                    decimals=1,
                ),
            ),
            (
                3,
                number(
                    "Do agents fail?",
                    Says(
                        "Looks within an hour that changed nothing, or restored not all, because "
                        "of an error.",
                        good="0",
                        bad="any for longer",
                        then="dashboards/runbooks/node-pass-failed.md",
                    ),
                    "none",
                    now(
                        f"sum(increase(corelane_node_failed_passes_total{{{AT}}}[1h])) or vector(0)"
                    ),
                    limits=Never(),
                    decimals=0,
                ),
            ),
        ),
    ),
)
