"""The agents themselves."""

from grafana.nodes.shared import AT
from grafana.panels import HARMLESS, Column, Limits, Never, Says, cells, lines
from grafana.queries import over_time, rows

ROWS = (
    (
        7,
        (
            (
                6,
                lines(
                    "When did each agent last look?",
                    Says(
                        "Time since the last look.",
                        good="below the interval, 5 minutes at most",
                        bad="above 15 minutes: it hangs",
                        then="dashboards/runbooks/node-tuner-down.md",
                    ),
                    "s",
                    over_time(
                        f"time() - max by (node) (corelane_node_last_pass_timestamp_seconds{{{AT}}})",
                        "{{node}}",
                    ),
                    limits=Limits(300, 900),
                ),
            ),
            (
                6,
                lines(
                    "Does the API server answer agents?",
                    Says(
                        "Failures each second by what was asked.",
                        good="0",
                        bad="for longer: no events, no taint, and the pods to prove are those of "
                        "before",
                        then="rights (RBAC) of the agent",
                    ),
                    "ops",
                    over_time(
                        "sum by (operation) (rate(corelane_node_api_errors_total"
                        f"{{{AT}}}[$__rate_interval]))",
                        "{{operation}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                6,
                lines(
                    "What would restore write back?",
                    Says(
                        "Settings in each node's journal.",
                        good="as many as the profile changed; 0 in mode audit",
                        bad="above 0 in mode audit: an earlier apply was not restored",
                        then="docs/node-tuning.md: restore and uninstall; " + HARMLESS,
                    ),
                    "none",
                    over_time(
                        f"max by (node) (corelane_node_journal_settings{{{AT}}})", "{{node}}"
                    ),
                ),
            ),
            (
                6,
                cells(
                    "What are agents told to do?",
                    Says(
                        "Mode, profile and version of each agent; " + HARMLESS + ".",
                        good="the same on nodes of one kind",
                        bad="two versions for long: a roll-out that stopped at a node",
                        then="`kubectl rollout status` of the DaemonSet",
                    ),
                    (
                        Column("node", "Node"),
                        Column("mode", "Mode"),
                        Column("profile", "Profile"),
                        Column("version", "Version"),
                    ),
                    rows(
                        f"max by (node, mode, profile, version) (corelane_node_tuner_info{{{AT}}})"
                    ),
                    sort="Node",
                    falling=False,
                ),
            ),
        ),
    ),
)
