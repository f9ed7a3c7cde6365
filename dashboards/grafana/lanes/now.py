"""Each lane over time, and what it does now."""

from grafana.board import link
from grafana.lanes.shared import BUSY, WAIT
from grafana.panels import Column, Limits, Says, cells, lines
from grafana.queries import POD, over_time, rows

ROWS = (
    (
        7,
        (
            (
                10,
                lines(
                    "How busy is each lane?",
                    Says(
                        "Share of the time that each lane's event loop was not waiting.",
                        good="lines close together, below 70%",
                        bad="one line far above the others: an uneven load; all at 100%: too few "
                        "servers",
                        then="uneven: *Placement*; all: Capacity",
                    ),
                    "percentunit",
                    over_time(
                        f"pod_lane:corelane_lane_busy:ratio_rate1m{{{POD}}}",
                        "{{pod}} lane {{lane}}",
                    ),
                    limits=BUSY,
                    top=1,
                    ranked=True,
                ),
            ),
            (
                7,
                lines(
                    "How long does work wait on each lane?",
                    Says(
                        "Time that each lane needs for what is queued and running, by its load "
                        "table.",
                        good="below 10 ms, and the lanes alike",
                        bad="a line that climbs: more comes in than goes out",
                        then="the load table below says which route it is",
                    ),
                    "s",
                    over_time(
                        f"max by (pod, lane) (corelane_lane_expected_seconds{{{POD}}})",
                        "{{pod}} lane {{lane}}",
                    ),
                    limits=WAIT,
                    ranked=True,
                ),
            ),
            (
                7,
                lines(
                    "How long did requests wait?",
                    Says(
                        "99th percentile of the phase *queue* of each lane, within five minutes.",
                        good="below 10 ms",
                        bad="above 50 ms for minutes",
                        then="compare with *How busy is each lane?*: a wait on a lane that is "
                        "not busy is a stall or dear requests",
                    ),
                    "s",
                    over_time(
                        f"pod_lane:corelane_request_phase_queue_seconds:p99_rate5m{{{POD}}}",
                        "{{pod}} lane {{lane}}",
                    ),
                    limits=WAIT,
                    ranked=True,
                ),
            ),
        ),
    ),
    (
        9,
        (
            (
                13,
                cells(
                    "What does each lane do now?",
                    Says(
                        "One row for each lane: its CPU, how busy it is, and what it has.",
                        good="rows of a pod that are alike",
                        bad="one row with more of everything, or *pinned* false where pods have "
                        "whole CPUs",
                        then="a lane with many connections and little work is no trouble; one "
                        "with work is",
                    ),
                    (
                        Column("pod", "Pod", link=link("Nodes", "corelane-nodes")),
                        Column("lane", "Lane"),
                        Column("cpu", "CPU"),
                        Column(
                            "pinned",
                            "Pinned",
                            values={"true": ("yes", "green"), "false": ("no", "orange")},
                        ),
                        Column("Value #A", "Busy", "percentunit", BUSY),
                        Column("Value #B", "Expected work", "s", WAIT),
                        Column("Value #C", "Queued"),
                        Column("Value #D", "In flight"),
                        Column("Value #E", "Connections"),
                        Column("Value #F", "Parked"),
                    ),
                    rows(
                        f"pod_lane:corelane_lane_busy:ratio_rate1m{{{POD}}}"
                        + (
                            " * on (namespace, job, pod, lane) group_left (cpu, pinned)"
                            f" max by (namespace, job, pod, lane, cpu, pinned) (corelane_lane_info{{{POD}}})"
                        )
                    ),
                    rows(f"max by (pod, lane) (corelane_lane_expected_seconds{{{POD}}})"),
                    rows(f"max by (pod, lane) (corelane_requests_queued{{{POD}}})"),
                    rows(f"max by (pod, lane) (corelane_requests_in_flight{{{POD}}})"),
                    rows(f"max by (pod, lane) (corelane_connections{{{POD}}})"),
                    rows(f"max by (pod, lane) (corelane_connections_parked{{{POD}}})"),
                    sort="Busy",
                ),
            ),
            (
                11,
                cells(
                    "Which requests hold the lanes?",
                    Says(
                        "The load table: how long a request of each route holds its lane, how "
                        "that scatters, and how many "
                        "were learnt from each second. Time × rate is what a route costs.",
                        good="the route with the highest cost is the one you expect",
                        bad="a time that has grown since the last version, or a deviation as "
                        "large as the time",
                        then="click a route: Service says in which phase the time goes",
                    ),
                    (
                        Column(
                            "route",
                            "Route",
                            link=link(
                                "Service",
                                "corelane-service",
                                "var-route=${__value.text:percentencode}",
                            ),
                        ),
                        Column("method", "Method"),
                        Column("Value #A", "Holds a lane", "s", Limits(0.01, 0.1)),
                        Column("Value #B", "± deviation", "s"),
                        Column("Value #C", "Rate", "reqps"),
                        Column("Value #D", "Share of lane time", "percentunit"),
                    ),
                    rows(f"avg by (route, method) (corelane_load_table_lane_seconds{{{POD}}})"),
                    rows(
                        f"avg by (route, method) (corelane_load_table_lane_deviation_seconds{{{POD}}})"
                    ),
                    rows(
                        f"sum by (route, method) (rate(corelane_load_table_observations_total{{{POD}}}[5m]))"
                    ),
                    rows(
                        f"""
                sum by (route, method) (
                  rate(corelane_load_table_observations_total{{{POD}}}[5m])
                    * corelane_load_table_lane_seconds{{{POD}}}
                )
                  / on () group_left () (
                    sum(
                      rate(corelane_load_table_observations_total{{{POD}}}[5m])
                        * corelane_load_table_lane_seconds{{{POD}}}
                    ) > 0
                  )
                """
                    ),
                    sort="Share of lane time",
                ),
            ),
        ),
    ),
)
