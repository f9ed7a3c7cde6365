"""Since when, and what changed then."""

from grafana.overview.shared import BURN, burn
from grafana.panels import HARMLESS, RELATIVE, Limits, Says, heat_map, lines, states
from grafana.queries import GATEWAY, JOB, THRESHOLD, buckets, over_time, quantile, rate

ERRORS = f'{GATEWAY}, envoy_response_code_class="5"'

ROWS = (
    (
        6,
        (
            (
                8,
                lines(
                    "How fast does the budget burn?",
                    Says(
                        "Errors as a multiple of what each objective allows, over five minutes "
                        "and over an hour.",
                        good="below 1",
                        bad="both windows above 14.4: the alert for people fires; above 1 for "
                        "days: the promise will break",
                        then="the short window says whether it is over; if it is not, go by route",
                    ),
                    "none",
                    over_time(burn("5m"), "{{slo}}, 5 min"),
                    over_time(burn("1h"), "{{slo}}, 1 h"),
                    limits=BURN,
                ),
            ),
            (
                8,
                lines(
                    "How much is asked of which route?",
                    Says(
                        "Requests each second by route, as the servers count them.",
                        good="the usual shape; " + HARMLESS,
                        bad="a route that appears, vanishes or grows where the others do not",
                        then="open Service for that route",
                    ),
                    "reqps",
                    over_time(
                        f"sum by (route) (route:corelane_requests:rate1m{{{JOB}}})", "{{route}}"
                    ),
                    stacked=True,
                    ranked=True,
                ),
            ),
            (
                8,
                lines(
                    "Which errors do clients get?",
                    Says(
                        "Share of replies that were 5xx: the gateway's, which clients get, and the "
                        "servers'. Where the two differ, retries mended the rest, or the gateway "
                        "itself answered. What is 4xx is the clients' own: Gateway and Service have it.",
                        good="0",
                        bad="above 0.1%",
                        then="errors of the servers: *Which route fails?*; of the gateway "
                        "alone: open Gateway",
                    ),
                    "percentunit",
                    over_time(
                        f"sum({rate('envoy_http_downstream_rq_xx', ERRORS)})"
                        f" / (sum({rate('envoy_http_downstream_rq_xx', GATEWAY)}) > 0)",
                        "gateway",
                    ),
                    over_time(
                        f'(sum(route:corelane_requests:rate1m{{{JOB}, code=~"5.."}}) or vector(0))'
                        f" / (sum(route:corelane_requests:rate1m{{{JOB}}}) > 0)",
                        "servers",
                    ),
                    limits=Limits(0.001, 0.01),
                ),
            ),
        ),
    ),
    (
        6,
        (
            (
                8,
                heat_map(
                    "How long do requests take?",
                    Says(
                        "Time from a request's header to the head of its reply, at the servers: "
                        "each row is a bucket, and "
                        "the darker it is, the more requests fell into it.",
                        good="one dark band, low",
                        bad="a second band above the first (some requests wait or are slow), "
                        "or a band that climbs",
                        then="a second band is mostly one route or one pod: see the bars below",
                    ),
                    "s",
                    buckets(
                        f"sum by (le) ({rate('corelane_request_duration_seconds_bucket', JOB)})"
                    ),
                ),
            ),
            (
                8,
                lines(
                    "How slow are the slowest of a hundred?",
                    Says(
                        "99th percentile of the servers, and of the gateway, which adds the "
                        "way there and its own queue; " + RELATIVE + ".",
                        good="the two close together, below the threshold of the latency objective",
                        bad="the gateway's far above the servers': connections, retries or the "
                        "gateway's own CPU",
                        then="both high: open Lanes, a queue grows; only the gateway's: open "
                        "Gateway",
                    ),
                    "s",
                    over_time(
                        quantile(0.99, "", "corelane_request_duration_seconds", JOB), "servers"
                    ),
                    over_time(
                        "("
                        + quantile(0.99, "", "envoy_http_downstream_rq_time", GATEWAY)
                        + ") / 1000",
                        "gateway",
                    ),
                    over_time(THRESHOLD, "objective"),
                    red="objective",
                ),
            ),
            (
                8,
                states(
                    "What changed?",
                    Says(
                        "The phase of each server over time. The marks on all panels are new "
                        "versions and configurations, "
                        "starts, drains, scaling and alerts.",
                        good="green throughout, or one server after the other in a roll-out",
                        bad="red: a server that Prometheus cannot reach; orange for minutes: a "
                        "drain that hangs",
                        then="compare the time of a change with the time at which the numbers "
                        "above turned",
                    ),
                    {
                        "0": ("unreachable", "red"),
                        "1": ("serving", "green"),
                        "2": ("settling", "yellow"),
                        "3": ("closing", "orange"),
                        "4": ("stopped", "dark-orange"),
                    },
                    over_time(
                        f"""
                max by (pod) (
                  corelane_phase{{{JOB}, phase="serving"}}
                    or 2 * corelane_phase{{{JOB}, phase="settling"}}
                    or 3 * corelane_phase{{{JOB}, phase="closing"}}
                    or 4 * corelane_phase{{{JOB}, phase="stopped"}}
                    or (up{{{JOB}}} == 0)
                )
                """,
                        "{{pod}}",
                    ),
                ),
            ),
        ),
    ),
)
