"""Rate, errors and duration of each route."""

from grafana.panels import HARMLESS, Limits, Says, heat_map, lines
from grafana.queries import POD_ROUTE, buckets, over_time, rate
from grafana.service.shared import summed

OWN_PHASES = f'{POD_ROUTE}, phase!="accept"'
"""Of a request; the phase accept belongs to its connection."""

# The records of routes keep no pod, and these panels are of the servers that are chosen.
ASKED = f"sum by (route) (rate(corelane_requests_total{{{POD_ROUTE}}}[5m]))"

FAILED = f"""
  (sum by (route) (rate(corelane_requests_total{{{POD_ROUTE}, code=~"5.."}}[5m])) or 0 * {ASKED})
    / ({ASKED} > 0)
"""

SLOWEST = f"""
  histogram_quantile(
    0.99,
    sum by (route, le) (rate(corelane_request_duration_seconds_bucket{{{POD_ROUTE}}}[5m]))
  ) >= 0
"""

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "How much is asked of each route?",
                    Says(
                        "Requests each second.",
                        good="the usual shape; " + HARMLESS,
                        bad="a route that appears or vanishes",
                        then="compare with the marks of what changed",
                    ),
                    "reqps",
                    over_time(summed("route", "corelane_requests_total", POD_ROUTE), "{{route}}"),
                    stacked=True,
                    ranked=True,
                ),
            ),
            (
                8,
                lines(
                    "How much of each route fails?",
                    Says(
                        "Share of each route's replies that were 5xx, within five minutes.",
                        good="0",
                        bad="above 0.1%",
                        then="one route: its handler or its database; all: the servers (Lanes)",
                    ),
                    "percentunit",
                    over_time(FAILED, "{{route}}"),
                    limits=Limits(0.001, 0.01),
                    ranked=True,
                ),
            ),
            (
                8,
                lines(
                    "How slow is each route?",
                    Says(
                        "99th percentile of each route within five minutes.",
                        good="below the threshold of the latency objective, and level",
                        bad="one route: its handler; all at once: lanes are busy",
                        then="*In which phase is the time?*",
                    ),
                    "s",
                    over_time(SLOWEST, "{{route}}"),
                    limits=Limits(0.1, 0.25),
                    logarithmic=True,
                    ranked=True,
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
                    "Which codes?",
                    Says(
                        "Requests each second by code, but for 200.",
                        good="codes that the clients' requests deserve: 304, 404",
                        bad="500: a bug or a panic. 503: shed, timed out, or the database is "
                        "away. 499: clients leave",
                        then="500: the log; 503: Lanes, *Why are requests refused?*",
                    ),
                    "reqps",
                    over_time(
                        summed("code", "corelane_requests_total", POD_ROUTE + ', code!="200"'),
                        "{{code}}",
                    ),
                    red="5..",
                ),
            ),
            (
                8,
                lines(
                    "In which phase is the time?",
                    Says(
                        "Mean time of a request in each phase. `write` is the time until the "
                        "socket took the last byte.",
                        good="most of it in the handler",
                        bad="queue above handler: the lanes are too busy; write: clients read "
                        "slowly",
                        then="queue: Lanes and Capacity; handler: the database below, or the code",
                    ),
                    "s",
                    over_time(
                        f"sum by (phase) ({rate('corelane_request_phase_seconds_sum', OWN_PHASES)})"
                        f" / (sum by (phase) ({rate('corelane_request_phase_seconds_count', OWN_PHASES)}) > 0)",
                        "{{phase}}",
                    ),
                    limits=Limits(0.1, 0.25),
                ),
            ),
            (
                8,
                heat_map(
                    "How do durations scatter?",
                    Says(
                        "From a request's header to the head of its reply: each row a bucket, "
                        "the darker the more.",
                        good="a band for each kind of request",
                        bad="a band that climbs, or a new one above",
                        then="choose one route above, then one pod",
                    ),
                    "s",
                    buckets(summed("le", "corelane_request_duration_seconds_bucket", POD_ROUTE)),
                ),
            ),
        ),
    ),
)
