"""Where a request's time goes."""

from grafana.panels import Limits, Says, heat_map, lines
from grafana.queries import POD, buckets, over_time, quantile, rate

OWN = f'{POD}, phase!="accept"'
"""Phases of a request; accept belongs to its connection."""

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "Which phase takes the time?",
                    Says(
                        "99th percentile of each phase: queue, handler, write (until the socket took "
                        "the last byte). Accept is left out: it has the client's own wait in it.",
                        good="handler above queue",
                        bad="queue above handler: too few lanes; write long: slow clients or a "
                        "full network",
                        then="queue: Capacity; handler: Service, by route",
                    ),
                    "s",
                    over_time(
                        quantile(0.99, "phase, ", "corelane_request_phase_seconds", OWN),
                        "{{phase}}",
                    ),
                    limits=Limits(0.1, 0.25),
                    logarithmic=True,
                ),
            ),
            (
                8,
                heat_map(
                    "How long do requests queue?",
                    Says(
                        "Waits for a slot: each row a bucket, the darker the more.",
                        good="one band, at the bottom",
                        bad="a band that climbs",
                        then="Capacity",
                    ),
                    "s",
                    buckets(
                        "sum by (le) ("
                        + rate("corelane_request_phase_seconds_bucket", POD + ', phase="queue"')
                        + ")"
                    ),
                ),
            ),
            (
                8,
                heat_map(
                    "How long do handlers take?",
                    Says(
                        "From the start of a handler to the head of its reply: each row a bucket.",
                        good="as many bands as there are kinds of requests, and none moves",
                        bad="a band that climbs, or a new one",
                        then="Service, by route; then the database there",
                    ),
                    "s",
                    buckets(
                        "sum by (le) ("
                        + rate("corelane_request_phase_seconds_bucket", POD + ', phase="handler"')
                        + ")"
                    ),
                ),
            ),
        ),
    ),
)
