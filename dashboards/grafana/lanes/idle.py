"""Connections that are parked, and those that change lanes."""

from grafana.panels import HARMLESS, Limits, Says, lines
from grafana.queries import POD, over_time, raised, rate

WOKEN_BY_BYTES = POD + ', reason="bytes"'

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "How many connections are parked?",
                    Says(
                        "Open connections that have been idle for longer than park_after and "
                        "cost little beside their socket, and the others.",
                        good="with many clients most are parked; " + HARMLESS,
                        bad="many that are not parked and few requests: HTTP/2, which is not "
                        "parked, or requests that hang",
                        then="compare with requests in flight above",
                    ),
                    "none",
                    over_time(
                        f"sum by (pod) (corelane_connections_parked{{{POD}}})", "{{pod}} parked"
                    ),
                    over_time(
                        f"sum by (pod) (corelane_connections{{{POD}}}"
                        f" - corelane_connections_parked{{{POD}}})",
                        "{{pod}} not parked",
                    ),
                    ranked=True,
                ),
            ),
            (
                8,
                lines(
                    "Why do connections wake?",
                    Says(
                        "Connections that are parked no longer, each second: bytes came from the "
                        "client, a deadline ended them, or a drain did.",
                        good="as many bytes as clients come back; " + HARMLESS,
                        bad="mostly deadlines: clients do not come back before timeouts.idle, and "
                        "each handshake was for one request",
                        then="keep connections open for longer on the client's side, or on both",
                    ),
                    "cps",
                    over_time(
                        raised(
                            "reason",
                            f"sum by (reason) ({rate('corelane_connection_wakes_total', POD)})",
                        ),
                        "{{reason}}",
                    ),
                ),
            ),
            (
                8,
                lines(
                    "How many requests wake their connection?",
                    Says(
                        "Share of the requests that found their connection parked.",
                        good="far below 50%",
                        bad="close to 100%: nearly each request pays for waking up",
                        then="raise park_after above the clients' usual pause, if CPU time is "
                        "scarcer than memory",
                    ),
                    "percentunit",
                    over_time(
                        f"sum by (pod) ({rate('corelane_connection_wakes_total', WOKEN_BY_BYTES)})"
                        f" / (sum by (pod) ({rate('corelane_requests_total', POD)}) > 0)",
                        "{{pod}}",
                    ),
                    limits=Limits(0.5, 0.9),
                ),
            ),
        ),
    ),
    (
        7,
        (
            (
                8,
                lines(
                    "Why do connections change lanes?",
                    Says(
                        "Connections that departed for another lane, each second: one that woke "
                        "(wake), or one in use whose lane was busier (busy) or had more of them "
                        "while all were busy (saturated).",
                        good="a few of busy and saturated after a change of load, then none; "
                        + HARMLESS,
                        bad="busy or saturated all the time: connections wander, and it does not "
                        "help",
                        then="compare with *Do plans help?*; moving = parked-only ends it",
                    ),
                    "cps",
                    over_time(
                        raised(
                            "reason",
                            f"sum by (reason) ({rate('corelane_connection_moves_total', POD)})",
                        ),
                        "{{reason}}",
                    ),
                ),
            ),
            (
                8,
                lines(
                    "Are connections stuck between lanes?",
                    Says(
                        "Connections that have departed from a lane and not arrived yet. A lane "
                        "takes them up at its next turn.",
                        good="0, or a moment above it",
                        bad="above 0 for longer: the lane that they go to does not turn",
                        then="look for a stall: clients of these connections wait for it",
                    ),
                    "none",
                    over_time(
                        f"sum by (pod) (corelane_connections_in_transit{{{POD}}})", "{{pod}}"
                    ),
                    limits=Limits(1, 100),
                ),
            ),
            (
                8,
                lines(
                    "Do plans help?",
                    Says(
                        "Plans to move connections in use from a busy lane to another, in the "
                        "range of a rate, by what came of them: lanes more even (helped), "
                        "nothing moved (futile), as uneven as before (no_help). Only with "
                        "moving = active.",
                        good="few, and most helped; " + HARMLESS,
                        bad="futile or no_help again and again: one connection makes a lane busy "
                        "alone, which no move mends",
                        then="more connections in front (the gateway's pool), or cheaper requests",
                    ),
                    "none",
                    over_time(
                        raised(
                            "outcome",
                            f"sum by (outcome) (increase(corelane_moving_plans_total{{{POD}}}[$__rate_interval]))",
                        ),
                        "{{outcome}}",
                    ),
                ),
            ),
        ),
    ),
)
