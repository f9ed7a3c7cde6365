"""Capacity: how much more can be asked, is that right, and how many servers are needed?"""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.panels import HARMLESS, RELATIVE, Column, Limits, Says, cells, lines, number
from grafana.queries import JOB, POD, now, over_time, rows
from grafana.variables import COMMON

BOARD = Board(
    uid="corelane-capacity",
    title="Corelane / Capacity",
    description="What the capacity model predicts beside what is measured, and how many servers "
    "that takes.",
    variables=COMMON,
    start="now-6h",
    marks=MARKS,
)

USED = Limits(0.7, 0.9)
MEASURED = f"""
  sum(pod:corelane_requests:rate1m{{{JOB}}})
    / (avg(pod_lane:corelane_lane_busy:ratio_rate1m{{{JOB}}}) > 0.02)
"""
"""What the servers would carry if their lanes were always busy at the present cost of a request."""

PREDICTED_BUSY = f"""
  pod:corelane_requests:rate1m{{{POD}}} * pod:corelane_request_lane_seconds:mean_rate5m{{{POD}}}
    / on (pod) count by (pod) (corelane_lane_info{{{POD}}})
"""

MEASURED_WAIT = f"""
  max(
    sum by (pod) (rate(corelane_request_phase_seconds_sum{{{POD}, phase="queue"}}[5m]))
      / (sum by (pod) (rate(corelane_request_phase_seconds_count{{{POD}, phase="queue"}}[5m])) > 0)
  )
"""

BOARD.row(
    3,
    (
        4,
        number(
            "How full are the servers?",
            Says(
                "Requests now as a share of what the model says the servers carry.",
                good="below 70%",
                bad="above 90% queues grow without bound",
                then="as many servers as *How many servers are needed?* says",
            ),
            "percentunit",
            now(f"max(job:corelane_capacity_used:ratio{{{JOB}}})"),
            limits=USED,
            empty="no traffic",
            decimals=0,
        ),
    ),
    (
        4,
        number(
            "How much more can be asked?",
            Says(
                "Requests each second beyond those of now, at the present mix, until the servers "
                "are used to the "
                "share that they are meant to be (70% as shipped).",
                good="more than the next peak brings",
                bad="0 or below: there is no reserve",
                then="more servers, or a cheaper route: see *Which route takes the capacity?*",
            ),
            "reqps",
            now(
                f"max(job:corelane_capacity_requests:rate{{{JOB}}})"
                " * scalar(slo:corelane_capacity_used_objective:ratio)"
                f" - sum(pod:corelane_requests:rate1m{{{JOB}}})"
            ),
            limits=Limits(1, 0, falling=True),
            empty="no traffic",
        ),
    ),
    (
        4,
        number(
            "How many servers are needed?",
            Says(
                "Servers like these, for the load of now at the share to which they are meant "
                "to be used.",
                good="at most as many as there are; " + HARMLESS,
                bad="more than there are",
                then="scale out, or see whether the autoscaler's upper bound holds it back",
            ),
            "none",
            now(f"max(job:corelane_capacity_replicas:needed{{{JOB}}})"),
            empty="no traffic",
        ),
    ),
    (
        4,
        number(
            "How many are missing?",
            Says(
                "Servers needed, less servers that are ready. Below 0 there are some to spare.",
                good="0 or below",
                bad="above 0",
                then="scale out; if pods are pending, the cluster has no whole CPUs left",
            ),
            "none",
            now(
                f"max(job:corelane_capacity_replicas:needed{{{JOB}}}) - sum(corelane_ready{{{JOB}}})"
            ),
            limits=Limits(1, 2),
            empty="no traffic",
        ),
    ),
    (
        4,
        number(
            "Is the prediction right?",
            Says(
                "What the model says the servers carry, over what their busy time says. At a low "
                "load a lane wakes up for each request, which the model leaves out, because a "
                "busy lane does not.",
                good="between 0.8 and 1.5",
                bad="far above: the lanes are robbed of their CPU, or what they do beside requests "
                "has grown within a day; the servers are full before *How full?* says so",
                then="*Lanes*: do lanes get their CPU? Many new connections, or TLS handshakes, "
                "have the same effect",
            ),
            "none",
            now(f"max(job:corelane_capacity_requests:rate{{{JOB}}}) / ({MEASURED})"),
            limits=Limits(1.5, 3),
            empty="too little traffic",
            decimals=2,
        ),
    ),
    (
        4,
        number(
            "How uneven are the servers?",
            Says(
                "The busiest server over the mean, within five minutes.",
                good="close to 1",
                bad="above 1.6: one is full before the others, and the reserve is smaller than "
                "it seems",
                then="Gateway: which share does each get?",
            ),
            "none",
            now(f"max(job:corelane_lane_busy:imbalance_rate5m{{{JOB}}})"),
            limits=Limits(1.3, 1.6),
            empty="idle",
            decimals=2,
        ),
    ),
)

BOARD.row(
    8,
    (
        8,
        lines(
            "How much is asked, and how much would go?",
            Says(
                "Requests each second, beside what the servers carry: as the model predicts "
                "it, and as their "
                "busy time says (where they are busy enough to tell); " + RELATIVE + ".",
                good="the lower line far below the others",
                bad="it comes within a third of them",
                then="scale out before it gets there",
            ),
            "reqps",
            over_time(f"sum(pod:corelane_requests:rate1m{{{JOB}}})", "asked"),
            over_time(f"max(job:corelane_capacity_requests:rate{{{JOB}}})", "predicted capacity"),
            over_time(MEASURED, "measured capacity"),
            logarithmic=True,
        ),
    ),
    (
        8,
        lines(
            "How full is each server?",
            Says(
                "Share of the time that the lanes of each server were busy: as measured, and as "
                "the model "
                "predicts from what was asked, wake-ups left out.",
                good="pairs of lines close together, below 70%",
                bad="a measured line far above the predicted: see *Is the prediction right?*",
                then="one server above the others: Gateway; all: scale out",
            ),
            "percentunit",
            over_time(f"pod:corelane_lane_busy:ratio_rate1m{{{POD}}}", "{{pod}} measured"),
            over_time(PREDICTED_BUSY, "{{pod}} predicted"),
            limits=USED,
            top=1,
            ranked=True,
        ),
    ),
    (
        8,
        lines(
            "How many servers were needed?",
            Says(
                "Servers needed for the load of each moment, at the share to which they are meant "
                "to be used and for the objective of latency, beside those that were ready; "
                + RELATIVE
                + ".",
                good="needed below ready",
                bad="needed above ready for longer than a start takes",
                then="the autoscaler's bounds; whole CPUs that are free on the nodes",
            ),
            "none",
            over_time(f"max(job:corelane_capacity_replicas:needed{{{JOB}}})", "needed"),
            over_time(
                f"max(job:corelane_capacity_latency_replicas:needed{{{JOB}}}) < +Inf",
                "needed for the latency",
            ),
            over_time(f"sum(corelane_ready{{{JOB}}})", "ready"),
        ),
    ),
)

BOARD.row(
    8,
    (
        8,
        cells(
            "Which route takes the capacity?",
            Says(
                "Lanes that each route keeps busy: requests each second times the time that "
                "one holds a lane.",
                good="the routes that the service is for",
                bad="a route that nobody knew to be dear",
                then="Service, that route; code that computes for long belongs beside the lanes",
            ),
            (
                Column("route", "Route"),
                Column("method", "Method"),
                Column("Value #A", "Lanes kept busy", "none", Limits(1, 4)),
                Column("Value #B", "Rate", "reqps"),
                Column("Value #C", "Holds a lane", "s"),
            ),
            rows(
                f"""
                sum by (route, method) (
                  rate(corelane_load_table_lane_time_seconds_total{{{JOB}}}[5m])
                )
                """
            ),
            rows(
                f"sum by (route, method) (rate(corelane_load_table_observations_total{{{JOB}}}[5m]))"
            ),
            rows(
                f"""
                sum by (route, method) (
                  rate(corelane_load_table_lane_time_seconds_total{{{JOB}}}[5m])
                )
                  / (
                    sum by (route, method) (
                      rate(corelane_load_table_observations_total{{{JOB}}}[5m])
                    ) > 0
                  )
                """
            ),
            sort="Lanes kept busy",
            empty="no traffic",
        ),
    ),
    (
        8,
        lines(
            "How long must one wait?",
            Says(
                "Wait for a lane: the 99th percentile and the mean as measured, from when the lane "
                "has read a request, and the mean that random arrivals of the present mix have "
                "(Pollaczek–Khinchine), from when it comes. A queue lets brief ones go first, which "
                "the model does not count on.",
                good="all below 10 ms, and the measured mean below the predicted",
                bad="the measured mean above the predicted: requests come in bursts, or to few of "
                "the lanes",
                then="Lanes: which requests hold the lanes?",
            ),
            "s",
            over_time(
                f"max(pod_lane:corelane_request_phase_queue_seconds:p99_rate5m{{{JOB}}})",
                "measured p99",
            ),
            over_time(MEASURED_WAIT, "measured mean"),
            over_time(
                f"max(pod:corelane_capacity_wait_seconds:mean{{{JOB}}})",
                "predicted mean",
            ),
            limits=Limits(0.01, 0.05),
        ),
    ),
    (
        8,
        lines(
            "Which other limit is near?",
            Says(
                "Use of the limits that are not CPU: connections, files, and waiting requests "
                "of the fullest server.",
                good="below 70%",
                bad="at 100% the next one is refused",
                then="limits.connections, the open files of the container (nofile), limits.queue",
            ),
            "percentunit",
            over_time(
                f"max(sum by (pod) (corelane_connections{{{POD}}})"
                f" / on (pod) max by (pod) (corelane_config_connections{{{POD}}}))",
                "connections",
            ),
            over_time(f"max(process_open_fds{{{POD}}} / process_max_fds{{{POD}}})", "files"),
            over_time(
                f"max(max by (pod) (corelane_requests_queued{{{POD}}})"
                f" / on (pod) max by (pod) (corelane_config_queue{{{POD}}}))",
                "queue of a lane",
            ),
            over_time(
                f"max(max by (pod) (corelane_requests_in_flight{{{POD}}})"
                f" / on (pod) max by (pod) (corelane_config_slots{{{POD}}}))",
                "slots of a lane",
            ),
            limits=USED,
            top=1,
        ),
    ),
)

BOARD.folded(
    "What if more comes?",
    (
        7,
        (
            (
                8,
                lines(
                    "How many servers would more load need?",
                    Says(
                        "Servers needed at one, two and four times the load of each moment.",
                        good="the cluster has as many whole CPUs; " + HARMLESS,
                        bad="it has not",
                        then="nodes first: they take longest",
                    ),
                    "none",
                    *(
                        over_time(
                            f"ceil({factor} * sum(pod:corelane_requests:rate1m{{{JOB}}})"
                            f" / avg(pod:corelane_capacity_requests:rate{{{JOB}}})"
                            " / scalar(slo:corelane_capacity_used_objective:ratio))",
                            f"{factor} × the load",
                        )
                        for factor in (1, 2, 4)
                    ),
                ),
            ),
            (
                8,
                lines(
                    "When is it full, if it goes on like this?",
                    Says(
                        "Use of the capacity in four hours, if the trend of the last two goes on; 200% at most.",
                        good="below 70%",
                        bad="above 100%: requests will be shed by then",
                        then="scale out now",
                    ),
                    "percentunit",
                    over_time(
                        f"clamp(predict_linear(job:corelane_capacity_used:ratio{{{JOB}}}[2h], 4 * 3600), 0, 2)",
                        "in four hours",
                    ),
                    over_time(f"max(job:corelane_capacity_used:ratio{{{JOB}}})", "now"),
                    limits=USED,
                ),
            ),
            (
                8,
                lines(
                    "How full may they be?",
                    Says(
                        "Share of its capacity to which a server may be used within the objective of "
                        "latency, by the tail that random arrivals of the present mix have, beside its "
                        "use; " + RELATIVE + ".",
                        good="use below the other line",
                        bad="use above it",
                        then="scale out; where the latency allows 0, a request alone takes too long, "
                        "and no number of servers helps",
                    ),
                    "percentunit",
                    over_time(
                        f"min(pod:corelane_capacity_latency_used:ratio{{{JOB}}})", "by the latency"
                    ),
                    over_time(f"max(job:corelane_capacity_used:ratio{{{JOB}}})", "use"),
                    top=1,
                ),
            ),
        ),
    ),
)
