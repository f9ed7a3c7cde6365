"""Which proof fails, which setting differs, and since when."""

from grafana.nodes.shared import APPLIED, AT
from grafana.panels import Column, Never, Says, cells, lines, states
from grafana.queries import over_time, raised, rows

INTERRUPTS = "interrupts-elsewhere"

ROWS = (
    (
        9,
        (
            (
                12,
                cells(
                    "Which proofs fail?",
                    Says(
                        "Each check of each container, the failed ones first. `unknown` could "
                        "not be read; of "
                        "cpus-exclusive and no-cfs-quota that is as bad as failed.",
                        good="ok and not-applicable only",
                        bad="failed: the pod has not what it was promised",
                        then="dashboards/runbooks/pod-not-pinned.md, by check",
                    ),
                    (
                        Column("node", "Node"),
                        Column("namespace", "Namespace"),
                        Column("pod", "Pod"),
                        Column("container", "Container"),
                        Column("check", "Check"),
                        Column(
                            "Value",
                            "State",
                            values={
                                "3": ("failed", "red"),
                                "2": ("unknown", "orange"),
                                "1": ("ok", "green"),
                                "0": ("not applicable", "transparent"),
                            },
                        ),
                    ),
                    rows(
                        f"""
                max by (node, namespace, pod, container, check) (
                  3 * corelane_node_pod_check{{{AT}, state="failed"}}
                    or 2 * corelane_node_pod_check{{{AT}, state="unknown"}}
                    or corelane_node_pod_check{{{AT}, state="ok"}}
                    or 0 * corelane_node_pod_check{{{AT}, state="not-applicable"}}
                )
                """
                    ),
                    sort="State",
                    empty="no pods, or no node tuner",
                ),
            ),
            (
                12,
                cells(
                    "Which settings are not as wanted?",
                    Says(
                        "Knobs with settings that differ from the profile or were refused, with "
                        "the value that is there and "
                        "the one wanted, for those that are one number.",
                        good="an empty table",
                        bad="differs in mode apply: somebody writes it back; failed: the kernel "
                        "refuses it",
                        then="`node-tuner plan` on the node shows the difference; "
                        "docs/node-tuning.md",
                    ),
                    (
                        Column("node", "Node"),
                        Column("knob", "Knob"),
                        Column("class", "Class"),
                        Column(
                            "state",
                            "State",
                            values={"failed": ("failed", "red"), "differs": ("differs", "orange")},
                        ),
                        Column("Value #A", "Settings"),
                        Column("Value #B", "Is"),
                        Column("Value #C", "Wanted"),
                    ),
                    rows(
                        "max by (node, knob, class, state)"
                        f' (corelane_node_knob_settings{{{AT}, state=~"differs|failed"}}) > 0'
                    ),
                    rows(
                        f"max by (node, knob) (corelane_node_knob_actual{{{AT}}})"
                        f' and on (node, knob) (corelane_node_knob_settings{{{AT}, state=~"differs|failed"}} > 0)'
                    ),
                    rows(
                        f"max by (node, knob) (corelane_node_knob_wanted{{{AT}}})"
                        f' and on (node, knob) (corelane_node_knob_settings{{{AT}, state=~"differs|failed"}} > 0)'
                    ),
                    sort="State",
                    empty="every setting is as wanted",
                ),
            ),
        ),
    ),
    (
        7,
        (
            (
                8,
                states(
                    "Since when is a node not prepared?",
                    Says(
                        "Each node over time.",
                        good="green; yellow where nobody is to prepare it (mode audit)",
                        bad="red after green: a setting drifted",
                        then="the time tells who was at the node then",
                    ),
                    {
                        "1": ("prepared", "green"),
                        "0": ("not prepared", "red"),
                        "2": ("only looked at: apply would change it", "yellow"),
                    },
                    over_time(
                        f"""
                        min by (node) (
                          corelane_node_prepared{{{AT}}} == 1
                            or (corelane_node_prepared{{{AT}}} == 0 and {APPLIED})
                            or 2 + (corelane_node_prepared{{{AT}}} == 0)
                        )
                        """,
                        "{{node}}",
                    ),
                    empty="no node tuner",
                ),
            ),
            (
                8,
                lines(
                    "Who changes what?",
                    Says(
                        "Settings that somebody else changed, and that the agent wrote again, by "
                        "knob, within an hour.",
                        good="0",
                        bad="a repair each pass: another tool wants it otherwise, and they fight",
                        then="find the other tool, or take the knob out of the profile",
                    ),
                    "none",
                    over_time(
                        raised(
                            "knob",
                            f"sum by (knob) (increase(corelane_node_knob_drift_total{{{AT}}}[1h]))",
                        ),
                        "{{knob}} changed",
                    ),
                    over_time(
                        raised(
                            "knob",
                            f"sum by (knob) (increase(corelane_node_knob_repairs_total{{{AT}}}[1h]))",
                        ),
                        "{{knob}} written again",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                states(
                    "Do interrupts keep away from lanes?",
                    Says(
                        "The check that no interrupt of a network device comes to the CPUs of "
                        "each pod.",
                        good="ok, or not applicable: the pod has no CPUs of its own",
                        bad="failed: packets of others are handled on a lane's CPU",
                        then="knob of interrupts with `housekeeping`; irqbalance must leave "
                        "these CPUs alone",
                    ),
                    {
                        "3": ("failed", "red"),
                        "2": ("unknown", "yellow"),
                        "1": ("ok", "green"),
                        "0": ("not applicable", "gray"),
                    },
                    over_time(
                        f"""
                max by (namespace, pod) (
                  3 * corelane_node_pod_check{{{AT}, check="{INTERRUPTS}", state="failed"}}
                    or 2 * corelane_node_pod_check{{{AT}, check="{INTERRUPTS}", state="unknown"}}
                    or corelane_node_pod_check{{{AT}, check="{INTERRUPTS}", state="ok"}}
                    or 0 * corelane_node_pod_check{{{AT}, check="{INTERRUPTS}", state="not-applicable"}}
                )
                """,
                        "{{namespace}}/{{pod}}",
                    ),
                    empty="no pods, or no node tuner",
                ),
            ),
        ),
    ),
)
