"""Connections: where are they placed, parked and moved, and which are rejected?"""

from grafana.board import Board
from grafana.panels import NONZERO, Limits, lines, number
from grafana.queries import POD, raised, sum_increase, sum_rate

UNEVEN = Limits(1.3, 1.6)
"""With 16 connections hashed over 4 lanes, the busiest lane holds 1.54 times the mean."""

LANE = "{{pod}} lane {{lane}}"
BUSIEST = f"max by (namespace, service, pod) (pod_lane:corelane_lane_busy:ratio_rate1m{{{POD}}})"
IMBALANCE = f"pod:corelane_lane_busy:imbalance_rate5m{{{POD}}} and on (namespace, service, pod) {BUSIEST} > 0.3"
"""Ignores low load, where a single request makes lanes uneven but no request waits."""

WAKES_BY_BYTES = sum_rate("corelane_connection_wakes_total", POD + ', reason="bytes"', "pod")


def by_lane(gauge: str) -> str:
    return f"max by (pod, lane) ({gauge}{{{POD}}})"


BOARD = Board(
    uid="corelane-connections",
    title="Corelane / Connections",
    description="Connections of each lane, their placement, parking and moves, and rejected connections.",
)

BOARD.row(
    3,
    number(
        "Connection limit used",
        "Is there room for more clients? Open connections of the fullest replica as a share of limits.connections. "
        "At 100%, the replica rejects new connections with 503.",
        "percentunit",
        f"max(sum by (pod) (corelane_connections{{{POD}}})"
        f" / on (pod) group_left () max by (pod) (corelane_config_connections{{{POD}}}))",
        limits=Limits(0.8, 0.95),
        decimals=0,
    ),
    number(
        "Rejected connections",
        "Are clients turned away? Connections per second rejected because of a limit or a failed accept. *Lanes* "
        "shows all reasons.",
        "cps",
        sum_rate("corelane_connections_refused_total", POD + ', reason=~"limit|accept_error"'),
        limits=NONZERO,
    ),
    number(
        "Parked share",
        "How many connections are idle? Share of connections that are parked. A parked connection needs little "
        "memory.",
        "percentunit",
        f"sum(corelane_connections_parked{{{POD}}}) / (sum(corelane_connections{{{POD}}}) > 0)",
        empty="none open",
        decimals=0,
    ),
)


def _placement(board: Board) -> None:
    board.row(
        7,
        lines(
            "Connections by lane",
            "Are connections spread evenly? Open connections, including parked connections. With least-loaded "
            "placement, the lines are close together. With hashed placement, they are random. Behind a proxy with "
            "few pods, choose least-loaded.",
            "none",
            {LANE: by_lane("corelane_connections")},
            ranked=True,
        ),
        lines(
            "Accepted connections by lane",
            "Do clients keep their connections? Connections accepted per second. If the rate is close to the request "
            "rate, clients or a proxy disable keep-alive.",
            "cps",
            {LANE: sum_rate("corelane_connections_accepted_total", POD, "pod, lane")},
            ranked=True,
        ),
        lines(
            "Lane imbalance by pod",
            "Which pod is uneven? Load of the busiest lane relative to the pod's mean over 5 minutes, while a lane "
            "is over 30% busy. Above 1.6 with few long-lived connections, use least-loaded placement.",
            "none",
            {"{{pod}}": IMBALANCE},
            limits=UNEVEN,
            ranked=True,
        ),
    )
    board.row(
        7,
        lines(
            "Placed connections by lane",
            "Where does the acceptor place connections? Connections placed per second, only with least-loaded "
            "placement. The placement follows *Expected work by lane*.",
            "cps",
            {LANE: sum_rate("corelane_connections_placed_total", POD, "pod, lane")},
        ),
        lines(
            "Stolen connections by lane",
            "Do idle lanes take over work? Connections per second taken from the inbox of a busy lane, only with "
            "least-loaded. If almost all placed connections are stolen, requests cost more or less than the load "
            "table expects.",
            "cps",
            {LANE: sum_rate("corelane_connections_stolen_total", POD, "pod, lane")},
        ),
        lines(
            "Connections waiting for a lane",
            "Does a lane fail to accept? Connections in each lane's inbox, only with least-loaded placement. If the "
            "value stays above 0, look for a stall.",
            "none",
            {LANE: by_lane("corelane_connections_queued")},
            limits=Limits(10, 100),
        ),
    )


def _idle(board: Board) -> None:
    board.folded("Idle connections: parking and moving")
    board.row(
        7,
        lines(
            "Parked connections",
            "How many connections are idle? Connections idle for longer than park_after, other HTTP connections, and "
            "WebSocket connections. Many unparked connections with few requests mean HTTP/2, upgrades, or requests "
            "that hang.",
            "none",
            {
                "{{pod}} parked": f"sum by (pod) (corelane_connections_parked{{{POD}}})",
                "{{pod}} not parked": f"sum by (pod) (corelane_connections{{{POD}}}"
                f" - corelane_connections_parked{{{POD}}})",
                "{{pod}} upgraded": f"sum by (pod) (corelane_connections_upgraded{{{POD}}})",
            },
            ranked=True,
        ),
        lines(
            "Wakes by reason",
            "Why do parked connections wake? Wakes per second because of client bytes, a deadline or a drain. If "
            "most wakes are deadlines, clients do not return before timeouts.idle.",
            "cps",
            {
                "{{reason}}": raised(
                    "reason", sum_rate("corelane_connection_wakes_total", POD, "reason")
                )
            },
        ),
        lines(
            "Requests on parked connections",
            "Is park_after too short? Share of requests that found their connection parked. Near 100%, "
            "raise park_after if CPU time matters more than memory.",
            "percentunit",
            {
                "{{pod}}": f"{WAKES_BY_BYTES} / ({sum_rate('corelane_requests_total', POD, 'pod')} > 0)"
            },
            limits=Limits(0.5, 0.9),
        ),
    )
    board.row(
        7,
        lines(
            "Moves by reason",
            "Why do connections change lanes? Moves per second, after a wake or away from a busy lane (busy, "
            "saturated). Constant busy or saturated moves do not help: see *Moving plans*. Use moving = parked-only "
            "to disable moves of active connections.",
            "cps",
            {
                "{{reason}}": raised(
                    "reason", sum_rate("corelane_connection_moves_total", POD, "reason")
                )
            },
        ),
        lines(
            "Connections in transit",
            "Are connections stuck between lanes? Connections that left a lane but have not arrived at another lane. "
            "If the value stays above 0, the target lane stalls and its clients wait.",
            "none",
            {"{{pod}}": f"sum by (pod) (corelane_connections_in_transit{{{POD}}})"},
            limits=Limits(1, 100),
        ),
        lines(
            "Moving plans",
            "Does moving active connections help? Plans by outcome: the lanes became more even (helped), nothing "
            "moved (futile), or the lanes stayed uneven (no_help). A single hot connection cannot be balanced, so "
            "use more connections. Requires moving = active.",
            "none",
            {
                "{{outcome}}": raised(
                    "outcome", sum_increase("corelane_moving_plans_total", POD, "outcome")
                )
            },
        ),
    )


_placement(BOARD)
_idle(BOARD)
