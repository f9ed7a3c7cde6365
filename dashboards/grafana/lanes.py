"""Lanes: which core is overloaded, and which requests hold it?"""

from grafana.board import Board, link
from grafana.connections import IMBALANCE, LANE, UNEVEN, by_lane
from grafana.panels import NONZERO, Column, Limits, cells, heat_map, lines, number
from grafana.queries import POD, POD_ROUTE, quantile, raised, rate, sum_increase, sum_rate

BOARD = Board(
    uid="corelane-lanes",
    title="Corelane / Lanes",
    description="Utilisation and queue of each lane, and the routes that hold the lane.",
)

BUSY = Limits(0.7, 0.9)
WAIT = Limits(0.01, 0.05)
UTILISATION = f"pod_lane:corelane_lane_busy:ratio_rate1m{{{POD}}}"
WITH_CPU = (
    " * on (namespace, service, pod, lane) group_left (cpu, pinned)"
    f" max by (namespace, service, pod, lane, cpu, pinned) (corelane_lane_info{{{POD}}})"
)


def lane_time(matchers: str) -> str:
    return (
        rate("corelane_load_table_observations_total", matchers, "5m")
        + f" * corelane_load_table_lane_seconds{{{matchers}}}"
    )


BOARD.row(
    3,
    number(
        "Busiest lane",
        "Is a core full? Busy share of the busiest lane in the last minute. Above 90%, the lane's queue grows without "
        "bound: compare the lane with the other lanes of its pod.",
        "percentunit",
        f"max({UTILISATION})",
        limits=BUSY,
        decimals=0,
    ),
    number(
        "Lane imbalance",
        "Is the load of a pod spread evenly? Load of the busiest lane relative to the mean over 5 minutes, in the "
        "worst pod with a lane over 30% busy. Above 1.6 with few long-lived connections, set placement to "
        "least-loaded.",
        "none",
        f"max({IMBALANCE})",
        limits=UNEVEN,
        empty="low load",
        decimals=2,
    ),
    number(
        "Highest expected work",
        "How long does a new request wait? Expected time for the queued and running work of the fullest lane, from "
        "its load table. Once it reaches timeouts.request, new requests get 503: see *Load table*.",
        "s",
        f"max(corelane_lane_expected_seconds{{{POD}}})",
        limits=WAIT,
    ),
    number(
        "Queued requests",
        "Do requests wait? Requests waiting for a slot on any lane. Near limits.queue, new requests get 503. "
        "*Capacity* shows whether more replicas help, and *Stalled lanes* shows whether a single handler is the "
        "cause.",
        "none",
        f"sum(corelane_requests_queued{{{POD}}})",
        limits=Limits(100, 1000),
    ),
    number(
        "Stalled lanes",
        "Does a handler block a lane? Lanes held by one handler for longer than timeouts.stall, while all other "
        "requests on the lane wait. *Stalls by route* shows the route.",
        "none",
        f"sum(corelane_lane_stalled{{{POD}}})",
        limits=NONZERO,
    ),
    number(
        "Shed requests",
        "Are requests rejected because of overload? Requests per second that got 503 because a queue was full. If "
        "all pods shed, see *Capacity*. If one pod sheds, check its lanes below and its node in *Nodes*.",
        "reqps",
        sum_rate("corelane_requests_refused_total", POD + ', reason=~"queue_full|pool_full"'),
        limits=NONZERO,
    ),
    number(
        "Unpinned lanes",
        "Do lanes have their own CPU? Lanes that may run on any CPU of their pod. Above 0 in pods with whole CPUs, "
        "neighbours take CPU time from these lanes: see *Nodes*.",
        "none",
        f'count(corelane_lane_info{{{POD}, pinned="false"}}) or vector(0)',
        limits=Limits(1, 1e9),
    ),
    number(
        "CPU time / busy time",
        "Do lanes get their CPU? About 100% is normal, and other threads can raise it. If the value is much lower, "
        "neighbours, the hypervisor or a quota take CPU time: see *Nodes*.",
        "percentunit",
        f"sum(rate(process_cpu_seconds_total{{{POD}}}[5m]))"
        f" / (sum(rate(corelane_lane_busy_seconds_total{{{POD}}}[5m])) > 0)",
        limits=Limits(0.9, 0.7, falling=True),
        empty="idle",
        decimals=0,
    ),
)

BOARD.row(
    7,
    lines(
        "Utilisation by lane",
        "Which core is busy? Busy share of each lane. If one lane is far above the others, see *Connections*. If all "
        "lanes are near 100%, see *Capacity*.",
        "percentunit",
        {LANE: UTILISATION},
        limits=BUSY,
        top=1,
        ranked=True,
    ),
    lines(
        "Expected work by lane",
        "Where does work pile up? Expected time for queued and running work, from the load table. A rising line "
        "means that the lane gets more work than it can handle.",
        "s",
        {LANE: by_lane("corelane_lane_expected_seconds")},
        limits=WAIT,
        ranked=True,
    ),
    lines(
        "Queue time p99 by lane",
        "How long did requests wait? 99th percentile of the queue phase over 5 minutes. Long waits on a lane that is "
        "not busy come from stalls or expensive requests.",
        "s",
        {LANE: f"pod_lane:corelane_request_phase_queue_seconds:p99_rate5m{{{POD}}}"},
        limits=WAIT,
        ranked=True,
    ),
    widths=(10, 7, 7),
)

BOARD.row(
    9,
    cells(
        "Lanes",
        "What is each lane doing now? CPU, utilisation and work. The lanes of a pod should look alike. Many "
        "connections with little work are harmless.",
        (
            Column("pod", "Pod", link=link("Nodes")),
            Column("lane", "Lane"),
            Column("cpu", "CPU"),
            Column(
                "pinned", "Pinned", values={"true": ("yes", "green"), "false": ("no", "orange")}
            ),
            Column("Value #A", "Busy", "percentunit", BUSY),
            Column("Value #B", "Expected work", "s", WAIT),
            Column("Value #C", "Queued"),
            Column("Value #D", "In flight"),
            Column("Value #E", "Connections"),
            Column("Value #F", "Parked"),
        ),
        UTILISATION + WITH_CPU,
        by_lane("corelane_lane_expected_seconds"),
        by_lane("corelane_requests_queued"),
        by_lane("corelane_requests_in_flight"),
        by_lane("corelane_connections"),
        by_lane("corelane_connections_parked"),
        sort="Busy",
    ),
    cells(
        "Load table",
        "Which requests hold the lanes? Lane time of each route, its deviation, and the request rate. Lane time "
        "multiplied by rate is the cost. Look for a lane time that grew with the last version. Click a route for its "
        "phases.",
        (
            Column(
                "route", "Route", link=link("Service", "var-route=${__value.text:percentencode}")
            ),
            Column("method", "Method"),
            Column("Value #A", "Lane time", "s", Limits(0.01, 0.1)),
            Column("Value #B", "± deviation", "s"),
            Column("Value #C", "Request rate", "reqps"),
            Column("Value #D", "Share of lane time", "percentunit"),
            Column(
                "Value #E", "On a slow lane", values={"0": ("no", "text"), "1": ("yes", "blue")}
            ),
        ),
        f"avg by (route, method) (corelane_load_table_lane_seconds{{{POD_ROUTE}}})",
        f"avg by (route, method) (corelane_load_table_lane_deviation_seconds{{{POD_ROUTE}}})",
        sum_rate("corelane_load_table_observations_total", POD_ROUTE, "route, method", "5m"),
        f"sum by (route, method) ({lane_time(POD_ROUTE)})"
        f" / on () group_left () (sum({lane_time(POD)}) > 0)",
        f"max by (route, method) (corelane_load_table_slow{{{POD_ROUTE}}})",
        sort="Share of lane time",
    ),
    widths=(13, 11),
)

BOARD.folded("Slow lanes")
BOARD.row(
    7,
    lines(
        "Slow lane's share of the CPU",
        "How much of each CPU do expensive requests use? If a busy lane leaves them only the configured share, they "
        "starve: add replicas or raise slow_lanes.share.",
        "percentunit",
        {LANE: f"pod_lane:corelane_slow_cpu:ratio_rate1m{{{POD}}}"},
        ranked=True,
    ),
    lines(
        "Expensive requests by lane",
        "How many requests go to slow lanes? Requests per second. The load table decides for each route: see *Load "
        "table*. If expensive routes exist but the rate is 0, check slow_lanes.bound.",
        "reqps",
        {LANE: sum_rate("corelane_slow_requests_total", POD, "pod, lane")},
        ranked=True,
    ),
    lines(
        "Waiting expensive requests",
        "Do expensive requests wait? Requests in the queue of each slow lane. A rising line means more work than the "
        "CPU can absorb: see *Utilisation by lane*.",
        "none",
        {LANE: by_lane("corelane_slow_requests_waiting")},
        limits=Limits(10, 100),
        ranked=True,
    ),
)
BOARD.row(
    7,
    lines(
        "Run-queue time of slow lanes",
        "Do cheap requests displace expensive requests? Seconds per second for which a slow lane could run but its "
        "CPU was busy. Expensive requests take longer by this time.",
        "percentunit",
        {LANE: sum_rate("corelane_slow_run_queue_seconds_total", POD, "pod, lane")},
        limits=Limits(0.5, 0.8),
        ranked=True,
    ),
    lines(
        "Time left to slow lanes",
        "Do lanes wait for their slow lanes? Seconds of waiting per second. Above 0, cheap requests would use the "
        "whole CPU, and the lane pauses them so that expensive requests get their share.",
        "percentunit",
        {LANE: sum_rate("corelane_slow_yielded_seconds_total", POD, "pod, lane")},
        limits=NONZERO,
    ),
    lines(
        "Work for other lanes",
        "Do idle lanes help busy lanes of the same pod? Requests per second stolen by a slow lane, and connections "
        "per second lent by a lane whose handler held it. Many stolen requests mean uneven placement. Many lent "
        "connections mean that handlers hold lanes.",
        "ops",
        {
            f"{LANE} stolen": sum_rate("corelane_slow_requests_stolen_total", POD, "pod, lane"),
            f"{LANE} lent": sum_rate("corelane_connections_lent_total", POD, "pod, lane"),
        },
    ),
)

BOARD.folded("Request phases")
BOARD.row(
    7,
    lines(
        "Phase duration p99",
        "In which phase is the time spent? Queue, handler, and write (until the socket accepts the last byte). If "
        "the queue phase is longer than the handler phase, there are too few lanes: see *Capacity*. Long writes mean "
        "slow clients.",
        "s",
        {
            "{{phase}}": quantile(
                0.99, "corelane_request_phase_seconds", POD + ', phase!="accept"', "phase, "
            )
        },
        limits=Limits(0.1, 0.25),
        logarithmic=True,
    ),
    heat_map(
        "Queue time",
        "How long do requests wait for a slot? A rising band means too little capacity.",
        "s",
        sum_rate("corelane_request_phase_seconds_bucket", POD + ', phase="queue"', "le"),
    ),
    heat_map(
        "Handler time",
        "How long do handlers take? Each kind of request forms one band. For a new or rising band, see the routes in "
        "*Service*.",
        "s",
        sum_rate("corelane_request_phase_seconds_bucket", POD + ', phase="handler"', "le"),
    ),
)

BOARD.folded("Stalls, panics and rejections")
BOARD.row(
    7,
    lines(
        "Stalls by route",
        "Which handler blocks its lane? Handlers that held a lane for longer than timeouts.stall. Use "
        "corelane::blocking for code that blocks or computes for a long time.",
        "none",
        {"{{route}}": raised("route", sum_increase("corelane_stalls_total", POD_ROUTE, "route"))},
        limits=NONZERO,
    ),
    lines(
        "Rejected requests by reason",
        "Why are requests rejected? Rejections per second. queue_full, pool_full and request_timeout mean overload; "
        "invalid and uri_too_long are client errors. docs/admin.md lists the reasons.",
        "reqps",
        {
            "{{reason}}": raised(
                "reason", sum_rate("corelane_requests_refused_total", POD, "reason")
            )
        },
        limits=NONZERO,
    ),
    lines(
        "Closed connections by reason",
        "Why are connections rejected or closed? Closed connections per second. idle_timeout, age and requests are "
        "normal; limit and accept_error keep clients out. docs/admin.md lists the reasons.",
        "cps",
        {
            "{{reason}}": raised(
                "reason", sum_rate("corelane_connections_refused_total", POD, "reason")
            )
        },
        limits=Limits(10, 100),
    ),
)
BOARD.row(
    7,
    lines(
        "Panics",
        "Does the service have a bug? Handlers and response bodies that panicked. Each panic causes a 500, and the "
        "log contains the panic and its route.",
        "none",
        {"{{pod}}": sum_increase("corelane_panics_total", POD, "pod")},
        limits=NONZERO,
    ),
    lines(
        "Lane repins",
        "Does the kubelet change the CPUs? Lanes that were pinned again. If this happens repeatedly, use Guaranteed "
        "pods with integer CPU requests.",
        "none",
        {"{{pod}}": sum_increase("corelane_lane_repins_total", POD, "pod")},
        limits=Limits(1, 10),
    ),
    lines(
        "Drain duration",
        "Do drains finish? Time since a replica started to drain. At drain.deadline, the replica aborts the "
        "remaining requests, and the log lists them.",
        "s",
        {"{{pod}}": f"(time() - (corelane_drain_started_timestamp_seconds{{{POD}}} > 0))"},
        limits=Limits(15, 30),
    ),
)
