"""Which server gets how much, and what the gateway adds."""

from grafana.panels import HARMLESS, RELATIVE, Limits, Says, lines
from grafana.queries import GATEWAY, JOB, POD, THRESHOLD, over_time, quantile

WEIGHT = f"""
  sum by (pod) (rate(corelane_requests_total{{{JOB}}}[1m]))
    / clamp_min(
      max by (pod) (pod:corelane_lane_busy:ratio_rate1m{{{JOB}}})
        + (
          sum by (pod) (rate(corelane_requests_total{{{JOB}, code=~"5.."}}[1m]))
            / (sum by (pod) (rate(corelane_requests_total{{{JOB}}}[1m])) > 0)
          or 0 * max by (pod) (pod:corelane_lane_busy:ratio_rate1m{{{JOB}}})
        ),
      0.02
    )
"""
"""What Envoy's client_side_weighted_round_robin makes of a load report: requests per second over
utilization, to which a penalty of 1 adds the share of errors. A report never says less than 0.02."""

ROWS = (
    (
        8,
        (
            (
                9,
                lines(
                    "Which share does each server get?",
                    Says(
                        "Each server's share of all requests; " + RELATIVE + ".",
                        good="alike, where servers have as many lanes each and the policy is "
                        "least requests",
                        bad="one line that leaves the others; a server near 0 is out of the "
                        "balancing or new",
                        then="compare with the share by load report at the right",
                    ),
                    "percentunit",
                    over_time(
                        f"sum by (pod) (pod:corelane_requests:rate1m{{{POD}}})"
                        f" / on () group_left () (sum(pod:corelane_requests:rate1m{{{JOB}}}) > 0)",
                        "{{pod}}",
                    ),
                    over_time(f"1 / count(corelane_build_info{{{JOB}}})", "even share"),
                    ranked=True,
                ),
            ),
            (
                8,
                lines(
                    "Real share, over the share by load report?",
                    Says(
                        "Each server's share of requests divided by the share that Envoy's "
                        "weighing of load reports "
                        "(requests per second over utilization and share of errors) gives it. "
                        + HARMLESS.capitalize()
                        + " with other policies than load-aware.",
                        good="close to 1: load goes where there is room",
                        bad="above 1.25: the server gets more than it has room for; below 0.8 "
                        "it could take more",
                        then="with least requests and lasting differences, policy load-aware "
                        "would even them out: gateway/balancing.md",
                    ),
                    "none",
                    over_time(
                        f"""
                (
                  sum by (pod) (pod:corelane_requests:rate1m{{{JOB}}})
                    / on () group_left () (sum(pod:corelane_requests:rate1m{{{JOB}}}) > 0)
                )
                  / on (pod)
                (({WEIGHT}) / on () group_left () (sum({WEIGHT}) > 0) > 0)
                """,
                        "{{pod}}",
                    ),
                    limits=Limits(1.25, 2),
                    ranked=True,
                ),
            ),
            (
                7,
                lines(
                    "What does the gateway add?",
                    Says(
                        "Time to answer, at the gateways and at the servers: half of the "
                        "requests, and all but one in a "
                        "hundred; "
                        + RELATIVE
                        + ". The gateways' includes the transfer of the reply.",
                        good="the gateways' median within a millisecond of the servers'",
                        bad="the gateways' far above: waits for connections, retries, or no "
                        "CPU left at the gateway",
                        then="*Are there connections enough?*, *What becomes of retries?*, "
                        "*What does a request cost?*",
                    ),
                    "s",
                    over_time(
                        f"({quantile(0.5, '', 'envoy_http_downstream_rq_time', GATEWAY)}) / 1000",
                        "gateway p50",
                    ),
                    over_time(
                        f"({quantile(0.99, '', 'envoy_http_downstream_rq_time', GATEWAY)}) / 1000",
                        "gateway p99",
                    ),
                    over_time(
                        quantile(0.5, "", "corelane_request_duration_seconds", JOB), "servers p50"
                    ),
                    over_time(
                        quantile(0.99, "", "corelane_request_duration_seconds", JOB), "servers p99"
                    ),
                    over_time(THRESHOLD, "objective"),
                    red="objective",
                    logarithmic=True,
                ),
            ),
        ),
    ),
)
