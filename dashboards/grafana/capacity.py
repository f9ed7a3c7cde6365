"""Capacity: how much more load fits, is the model right, and how many replicas are needed?"""

from grafana.board import Board
from grafana.panels import Column, Limits, cells, lines, number
from grafana.queries import CLUSTER, POD, ROUTE, SERVICE, sum_rate

BOARD = Board(
    uid="corelane-capacity",
    title="Corelane / Capacity",
    description="Predicted and measured capacity, and the number of replicas that the load needs.",
    start="now-6h",
)

USED = Limits(0.7, 0.9)
MEASURED = f"""
  sum(pod:corelane_requests:rate1m{{{SERVICE}}})
    / (avg(pod_lane:corelane_lane_busy:ratio_rate1m{{{SERVICE}}}) > 0.02)
"""
"""Request rate if all lanes were always busy, at the current cost per request."""

PREDICTED_BUSY = f"""
  pod:corelane_requests:rate1m{{{POD}}} * pod:corelane_request_lane_seconds:mean_rate5m{{{POD}}}
    / on (pod) count by (pod) (corelane_lane_info{{{POD}}})
"""

QUEUED = f'{POD}, phase="queue"'

MEASURED_WAIT = f"""
  max(
    {sum_rate("corelane_request_phase_seconds_sum", QUEUED, "pod", "5m")}
      / ({sum_rate("corelane_request_phase_seconds_count", QUEUED, "pod", "5m")} > 0)
  )
"""

LANE_TIME = sum_rate("corelane_load_table_lane_time_seconds_total", ROUTE, "route, method", "5m")
OBSERVATIONS = sum_rate("corelane_load_table_observations_total", ROUTE, "route, method", "5m")


def limit_used(series: str, setting: str, how: str = "max") -> str:
    """Returns the highest usage of a limit on any pod."""
    used = f"{how} by (pod) ({series}{{{POD}}})"
    return f"max({used} / on (pod) max by (pod) ({setting}{{{POD}}}))"


def needed(factor: int) -> str:
    return (
        f"ceil({factor} * sum(pod:corelane_requests:rate1m{{{SERVICE}}})"
        f" / avg(pod:corelane_capacity_requests:rate{{{SERVICE}}})"
        " / scalar(slo:corelane_capacity_used_objective:ratio))"
    )


BOARD.row(
    3,
    number(
        "Capacity used",
        "How full are the replicas? Request rate as a share of the rate that the capacity model predicts. Above 90%, "
        "queues grow without bound: scale to *Replicas needed*.",
        "percentunit",
        f"max(service:corelane_capacity_used:ratio{{{SERVICE}}})",
        limits=USED,
        empty="no traffic",
        decimals=0,
    ),
    number(
        "Spare request rate",
        "How much more load fits? Requests per second that can be added at the current mix until the target "
        "utilisation (70% by default). At 0, add replicas or make a route in *Lane time by route* cheaper.",
        "reqps",
        f"max(service:corelane_capacity_requests:rate{{{SERVICE}}})"
        f" * scalar(max(slo:corelane_capacity_used_objective:ratio{{{CLUSTER}}}))"
        f" - sum(pod:corelane_requests:rate1m{{{SERVICE}}})",
        limits=Limits(1, 0, falling=True),
        empty="no traffic",
    ),
    number(
        "Replicas needed",
        "How many replicas does the current load need? Replicas needed for the target utilisation. If more are "
        "needed than are running, scale out or raise the autoscaler's maximum.",
        "none",
        f"max(service:corelane_capacity_replicas:needed{{{SERVICE}}})",
        empty="no traffic",
    ),
    number(
        "Missing replicas",
        "Are there too few replicas? Replicas needed minus ready replicas; a value below 0 means spare replicas. "
        "Above 0, scale out. Pending pods mean that the cluster has no whole CPUs left.",
        "none",
        f"max(service:corelane_capacity_replicas:needed{{{SERVICE}}}) - sum(corelane_ready{{{SERVICE}}})",
        limits=Limits(1, 2),
        empty="no traffic",
    ),
    number(
        "Predicted / measured capacity",
        "Is the model right? 0.8 to 1.5 is normal, because the model omits wake-ups at low load. At a much higher "
        "ratio, lanes lose CPU time (*Lanes*) or spend it on new connections and TLS handshakes.",
        "none",
        f"max(service:corelane_capacity_requests:rate{{{SERVICE}}}) / ({MEASURED})",
        limits=Limits(1.5, 3),
        empty="too little traffic",
        decimals=2,
    ),
    number(
        "Replica imbalance",
        "Is the load spread evenly? Load of the busiest replica relative to the mean, over 5 minutes, once a replica "
        "is 30% busy. Above 1.6, one replica saturates before the others: see *Request share by replica* in "
        "*Gateway*.",
        "none",
        f"max(service:corelane_lane_busy:imbalance_rate5m{{{SERVICE}}}) and on ()"
        f" max(pod:corelane_lane_busy:ratio_rate1m{{{SERVICE}}}) > 0.3",
        limits=Limits(1.3, 1.6),
        empty="low load",
        decimals=2,
    ),
)

BOARD.row(
    8,
    lines(
        "Request rate and capacity",
        "How far is the load from the limit? Request rate, predicted capacity, and capacity measured from busy time. "
        "Scale out before the rate reaches two thirds of the capacity.",
        "reqps",
        {
            "request rate": f"sum(pod:corelane_requests:rate1m{{{SERVICE}}})",
            "predicted capacity": f"max(service:corelane_capacity_requests:rate{{{SERVICE}}})",
            "measured capacity": MEASURED,
        },
        logarithmic=True,
    ),
    lines(
        "Utilisation by replica",
        "Which replica is full? Busy share of each replica's lanes, measured and predicted. If the measured share is "
        "far higher than the predicted share, see *Predicted / measured capacity*. If one replica is above the "
        "others, see *Request share by replica* in *Gateway*.",
        "percentunit",
        {
            "{{pod}} measured": f"pod:corelane_lane_busy:ratio_rate1m{{{POD}}}",
            "{{pod}} predicted": PREDICTED_BUSY,
        },
        limits=USED,
        top=1,
        ranked=True,
    ),
    lines(
        "Replicas wanted, ready and allowed",
        "Does the autoscaler follow the load? Replicas that the load requires (with trend and spares), ready "
        "replicas, replicas that the autoscaler wants, and its maximum. kube-state-metrics provides the last two. If "
        "the autoscaler is at its maximum, see dashboards/runbooks/lanes.md.",
        "none",
        {
            "required": f"max(service:corelane_replicas_required:count{{{SERVICE}}})",
            "ready": f"sum(corelane_ready{{{SERVICE}}})",
            "wanted": f"max(service:corelane_autoscaler_desired:count{{{SERVICE}}})"
            f" or max(service:corelane_replicas_required:count{{{SERVICE}}})",
            "maximum": f"max(service:corelane_autoscaler_max:count{{{SERVICE}}})",
        },
    ),
)

BOARD.row(
    8,
    cells(
        "Lane time by route",
        "Which route uses the capacity? Number of lanes that each route keeps busy: rate times lane time per "
        "request. Move long computations to blocking threads.",
        (
            Column("route", "Route"),
            Column("method", "Method"),
            Column("Value #A", "Lanes busy", "none", Limits(1, 4)),
            Column("Value #B", "Request rate", "reqps"),
            Column("Value #C", "Lane time per request", "s"),
        ),
        LANE_TIME,
        OBSERVATIONS,
        f"{LANE_TIME} / ({OBSERVATIONS} > 0)",
        sort="Lanes busy",
        empty="no traffic",
    ),
    lines(
        "Queue time: measured and predicted",
        "Does queueing match the model? Measured 99th percentile and mean, and the mean predicted for random "
        "arrivals (Pollaczek–Khinchine). If the measured mean is higher, requests come in bursts or use too few "
        "lanes: see *Lanes*.",
        "s",
        {
            "measured p99": f"max(pod_lane:corelane_request_phase_queue_seconds:p99_rate5m{{{SERVICE}}})",
            "measured mean": MEASURED_WAIT,
            "predicted mean": f"max(pod:corelane_capacity_wait_seconds:mean{{{SERVICE}}})",
        },
        limits=Limits(0.01, 0.05),
    ),
    lines(
        "Other limits used",
        "Is a limit other than CPU close? Connections, open files, queue and slots of the fullest replica. At 100%, "
        "the replica rejects more: raise limits.connections, nofile, limits.queue or limits.slots.",
        "percentunit",
        {
            "connections": limit_used(
                "corelane_connections", "corelane_config_connections", how="sum"
            ),
            "open files": f"max(process_open_fds{{{POD}}} / process_max_fds{{{POD}}})",
            "queue of a lane": limit_used("corelane_requests_queued", "corelane_config_queue"),
            "slots of a lane": limit_used("corelane_requests_in_flight", "corelane_config_slots"),
        },
        limits=USED,
        top=1,
    ),
)

BOARD.folded("Cost")
BOARD.row(
    7,
    lines(
        "CPUs held and used",
        "What do the replicas cost? CPUs of all lanes, busy CPUs, and CPUs required by the load, including queued "
        "and refused requests. If required exceeds held, requests wait. If held is much higher, lower the "
        "autoscaler's minimum or shorten its scale-down window.",
        "none",
        {
            "held": f"count(corelane_lane_info{{{SERVICE}}})",
            "busy": f"sum(pod_lane:corelane_lane_busy:ratio_rate1m{{{SERVICE}}})",
            "required": f"max(service:corelane_lanes_required:count{{{SERVICE}}})",
        },
    ),
    lines(
        "Replicas needed and ready",
        "How many replicas are needed for the target utilisation and for the latency objective, and how many are "
        "ready? If more replicas are needed for longer than a start takes, see *Replicas wanted, ready and allowed*.",
        "none",
        {
            "needed": f"max(service:corelane_capacity_replicas:needed{{{SERVICE}}})",
            "needed for latency": f"max(service:corelane_capacity_latency_replicas:needed{{{SERVICE}}}) < +Inf",
            "ready": f"sum(corelane_ready{{{SERVICE}}})",
        },
    ),
    number(
        "Replica hours in 24 h",
        "What did a day cost? Replica hours in the last 24 hours, or in the shorter period that Prometheus has data "
        "for. Multiply the value by the CPUs per replica and the CPU price to get the bill.",
        "none",
        f"sum(sum_over_time(corelane_ready{{{SERVICE}}}[1d:1m])) / 60",
        empty="no replicas",
        decimals=1,
    ),
)

BOARD.folded("Forecast")
BOARD.row(
    7,
    lines(
        "Replicas needed for more load",
        "What would growth need? Replicas needed for one, two and four times the load. Check that the cluster has "
        "enough whole CPUs, because new nodes take longest to add.",
        "none",
        {f"{factor} × the load": needed(factor) for factor in (1, 2, 4)},
    ),
    lines(
        "Capacity used in 4 hours",
        "When is the platform full? Capacity used, with the 2-hour trend extrapolated for 4 hours, at most 200%. "
        "Above 100%, replicas will shed requests: scale out now.",
        "percentunit",
        {
            "in 4 hours": "clamp(predict_linear("
            f"service:corelane_capacity_used:ratio{{{SERVICE}}}[2h], 4 * 3600), 0, 2)",
            "now": f"max(service:corelane_capacity_used:ratio{{{SERVICE}}})",
        },
        limits=USED,
    ),
    lines(
        "Utilisation limit for the latency objective",
        "How full may a replica be? Highest utilisation at which random arrivals of the current mix meet the latency "
        "objective, and the current utilisation. At a limit of 0, a single request takes too long, and more replicas "
        "do not help.",
        "percentunit",
        {
            "limit": f"min(pod:corelane_capacity_latency_used:ratio{{{SERVICE}}})",
            "used": f"max(service:corelane_capacity_used:ratio{{{SERVICE}}})",
        },
        top=1,
    ),
)
