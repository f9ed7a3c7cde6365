"""Whether a lane is in trouble, in eight numbers."""

from grafana.lanes.shared import BUSY, UNEVEN, WAIT
from grafana.panels import Limits, Never, Says, number
from grafana.queries import POD, now, rate

SHED = POD + ', reason=~"queue_full|pool_full"'

ROWS = (
    (
        3,
        (
            (
                3,
                number(
                    "How busy is the busiest?",
                    Says(
                        "Share of the last minute that the event loop of the busiest lane was "
                        "not waiting.",
                        good="below 70%",
                        bad="above 90% its queue grows without bound",
                        then="see below whether the others of its pod are as busy",
                    ),
                    "percentunit",
                    now(f"max(pod_lane:corelane_lane_busy:ratio_rate1m{{{POD}}})"),
                    limits=BUSY,
                    decimals=0,
                ),
            ),
            (
                3,
                number(
                    "How uneven are the lanes?",
                    Says(
                        "The busiest lane of a pod over the mean of its lanes, within five "
                        "minutes; the worst pod.",
                        good="close to 1; means little where lanes are nearly idle",
                        bad="above 1.6: one lane is asked for more than the others can help with",
                        then="few long-lived connections: set placement to least-loaded; else "
                        "see *Placement*",
                    ),
                    "none",
                    now(f"max(pod:corelane_lane_busy:imbalance_rate5m{{{POD}}})"),
                    limits=UNEVEN,
                    empty="idle",
                    decimals=2,
                ),
            ),
            (
                3,
                number(
                    "How long is the wait now?",
                    Says(
                        "Time that the lane with the most work needs for what is queued and "
                        "running, by its load table.",
                        good="below 10 ms",
                        bad="above 50 ms; at timeouts.request new requests are answered 503",
                        then="see which route holds the lane, in the load table",
                    ),
                    "s",
                    now(f"max(corelane_lane_expected_seconds{{{POD}}})"),
                    limits=WAIT,
                ),
            ),
            (
                3,
                number(
                    "How many wait?",
                    Says(
                        "Requests that wait for a slot or their turn, on all lanes.",
                        good="0, or a handful that changes all the time",
                        bad="close to limits.queue on a lane: what comes then is answered 503",
                        then="Capacity says whether more servers would help; a stall would not "
                        "go by them",
                    ),
                    "none",
                    now(f"sum(corelane_requests_queued{{{POD}}})"),
                    limits=Limits(100, 1000),
                ),
            ),
            (
                3,
                number(
                    "Is a lane stalled?",
                    Says(
                        "Lanes that a handler holds for longer than timeouts.stall at this moment.",
                        good="0",
                        bad="any: all requests of that lane wait for one handler",
                        then="*Stalls, panics and refusals* names the route; the log says how "
                        "long it has taken",
                    ),
                    "none",
                    now(f"sum(corelane_lane_stalled{{{POD}}})"),
                    limits=Never(),
                ),
            ),
            (
                3,
                number(
                    "Are requests shed?",
                    Says(
                        "Requests each second that were answered 503 because a queue was full or "
                        "too long.",
                        good="0",
                        bad="above 0: users see errors, and the gateway tries other pods",
                        then="all pods: Capacity; one pod: see its lanes below and its node in "
                        "Nodes",
                    ),
                    "reqps",
                    now(f"sum({rate('corelane_requests_refused_total', SHED)})"),
                    limits=Never(),
                ),
            ),
            (
                3,
                number(
                    "How many are not pinned?",
                    Says(
                        "Lanes that may run on any CPU of their pod, because the CPUs are not "
                        "the pod's alone.",
                        good="0 where pods have whole CPUs",
                        bad="above 0 there: neighbours take time from the lane",
                        then="Nodes has the proof of pinning for each pod",
                    ),
                    "none",
                    now(f'count(corelane_lane_info{{{POD}, pinned="false"}}) or vector(0)'),
                    limits=Limits(1, 1e9),
                ),
            ),
            (
                3,
                number(
                    "Do lanes get their CPU?",
                    Says(
                        "CPU time of the servers over the wall-clock time that their lanes were "
                        "busy, within five minutes.",
                        good="around 100%; the admin thread and threads for blocking code come "
                        "on top",
                        bad="well below: lanes are robbed of their CPU by neighbours, the "
                        "hypervisor or a quota",
                        then="Nodes: proof of pinning, and throttling",
                    ),
                    "percentunit",
                    now(
                        f"sum(rate(process_cpu_seconds_total{{{POD}}}[5m]))"
                        f" / (sum(rate(corelane_lane_busy_seconds_total{{{POD}}}[5m])) > 0)"
                    ),
                    limits=Limits(0.9, 0.7, falling=True),
                    empty="idle",
                    decimals=0,
                ),
            ),
        ),
    ),
)
