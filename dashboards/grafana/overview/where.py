"""Which alert, route, lane or node it is."""

from grafana.board import link
from grafana.panels import Column, Limits, Never, Says, bars, cells
from grafana.queries import JOB, POD, firing, now, rows

ROWS = (
    (
        6,
        (
            (
                8,
                cells(
                    "Which alerts fire?",
                    Says(
                        "Alerts of Corelane that fire now, with what they say of where.",
                        good="an empty table",
                        bad="any row; critical ones first",
                        then="open dashboards/runbooks/ at the alert's name; each runbook "
                        "begins with what to look at here",
                    ),
                    (
                        Column("alertname", "Alert"),
                        Column(
                            "severity",
                            "Severity",
                            values={
                                "critical": ("critical", "red"),
                                "warning": ("warning", "orange"),
                            },
                        ),
                        Column("route", "Route"),
                        Column("pod", "Pod"),
                        Column("node", "Node"),
                    ),
                    rows(f"max by (alertname, severity, route, pod, node) {firing()}"),
                    sort="Severity",
                    falling=False,
                    empty="no alert fires",
                ),
            ),
            (
                4,
                bars(
                    "Which route fails?",
                    Says(
                        "Share of each route's replies that were 5xx, within five minutes; the "
                        "five worst.",
                        good="0 everywhere",
                        bad="above 0.1%",
                        then="click a bar: Service shows the route's codes, its phases and "
                        "what it needs",
                    ),
                    "percentunit",
                    now(
                        f'topk(5, route_slo:corelane_slo_errors:ratio_rate5m{{{JOB}, slo="availability"}})',
                        "{{route}}",
                    ),
                    limits=Limits(0.001, 0.01),
                    empty="no traffic",
                    link=link(
                        "Service",
                        "corelane-service",
                        "var-route=${__field.labels.route:percentencode}",
                    ),
                ),
            ),
            (
                4,
                bars(
                    "Which route is slow?",
                    Says(
                        "99th percentile of each route within five minutes; the five slowest.",
                        good="what the route takes when it is alone (Lanes, load table)",
                        bad="above the threshold of the latency objective",
                        then="click a bar: Service says in which phase the time goes",
                    ),
                    "s",
                    now(
                        f"topk(5, route:corelane_request_duration_seconds:p99_rate5m{{{JOB}}})",
                        "{{route}}",
                    ),
                    limits=Limits(0.1, 0.25),
                    empty="no traffic",
                    link=link(
                        "Service",
                        "corelane-service",
                        "var-route=${__field.labels.route:percentencode}",
                    ),
                ),
            ),
            (
                4,
                bars(
                    "Which lane queues?",
                    Says(
                        "99th percentile of the wait for a lane's slot, within five minutes; "
                        "the five longest.",
                        good="below a few milliseconds",
                        bad="above 50 ms: the lane is asked for more than it does",
                        then="click a bar: Lanes shows whether one lane or all of the pod are busy",
                    ),
                    "s",
                    now(
                        f"topk(5, pod_lane:corelane_request_phase_queue_seconds:p99_rate5m{{{POD}}})",
                        "{{pod}} lane {{lane}}",
                    ),
                    limits=Limits(0.01, 0.05),
                    empty="no traffic",
                    link=link(
                        "Lanes", "corelane-lanes", "var-pod=${__field.labels.pod:percentencode}"
                    ),
                ),
            ),
            (
                4,
                bars(
                    "Which node is not as it should be?",
                    Says(
                        "Settings that were refused or, in mode apply, differ from the node's "
                        "profile, and pods whose "
                        "pinning is not proven.",
                        good="0 everywhere",
                        bad="anything else: neighbours or the kernel take time from pinned lanes",
                        then="click a bar: Nodes names the setting or the check",
                    ),
                    "none",
                    now(
                        """
                sum by (node) (
                  corelane_node_knob_settings{state="failed"}
                    or (
                      corelane_node_knob_settings{state="differs"}
                        and on (node) corelane_node_tuner_info{mode="apply"}
                    )
                    or (corelane_node_pods - corelane_node_pods_proven)
                    or 0 * corelane_node_last_pass_timestamp_seconds
                )
                """,
                        "{{node}}",
                    ),
                    limits=Never(),
                    empty="no node tuner",
                    link=link(
                        "Nodes", "corelane-nodes", "var-node=${__field.labels.node:percentencode}"
                    ),
                ),
            ),
        ),
    ),
)
