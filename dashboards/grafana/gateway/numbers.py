"""Whether the gateway is in trouble, in eight numbers."""

from grafana.gateway.shared import UPSTREAM, per_second
from grafana.panels import HARMLESS, Limits, Never, Says, number
from grafana.queries import GATEWAY, now, quantile

ACTIONS = (
    '__name__=~"envoy_overload_envoy_(overload_actions|load_shed_points)_.+_scale_percent",'
    ' __name__!~".+_shrink_heap_.+"'
)
"""What frees memory unseen (shrink_heap) is no defence that a client would notice."""

CIRCUITS = "|".join(
    f"envoy_cluster_circuit_breakers_default_{circuit}_open"
    for circuit in ("cx", "cx_pool", "rq_pending", "rq", "rq_retry")
)

ROWS = (
    (
        3,
        (
            (
                3,
                number(
                    "How much goes through?",
                    Says(
                        "Requests that the gateways finished each second.",
                        good="what is usual; " + HARMLESS,
                        bad="0, where somebody should be asking",
                        then="at 0 look at what is in front: DNS, the load balancer, the Service",
                    ),
                    "reqps",
                    now(per_second("envoy_http_downstream_rq_completed", GATEWAY)),
                ),
            ),
            (
                3,
                number(
                    "Do clients get 5xx?",
                    Says(
                        "Share of all replies to clients.",
                        good="0",
                        bad="above 0.1%",
                        then="see whether the servers sent them (Overview, *Which errors do "
                        "clients get?*) or the gateway did",
                    ),
                    "percentunit",
                    now(
                        per_second(
                            "envoy_http_downstream_rq_xx",
                            GATEWAY + ', envoy_response_code_class="5"',
                        )
                        + f" / ({per_second('envoy_http_downstream_rq_xx', GATEWAY)} > 0)"
                    ),
                    limits=Limits(0.001, 0.01),
                    empty="no traffic",
                    decimals=2,
                ),
            ),
            (
                3,
                number(
                    "And the slowest of 100?",
                    Says(
                        "99th percentile of the time from a request's first byte to the last "
                        "byte of its reply.",
                        good="below the threshold of the latency objective",
                        bad="above it",
                        then="*What does the gateway add?* says whether it is the gateway's "
                        "own time",
                    ),
                    "ms",
                    now(quantile(0.99, "", "envoy_http_downstream_rq_time", GATEWAY)),
                    limits=Limits(100, 250),
                    empty="no traffic",
                ),
            ),
            (
                3,
                number(
                    "Are the servers used?",
                    Says(
                        "Servers that the gateways hold for healthy, as a share of those that "
                        "they know; the worst gateway.",
                        good="100%",
                        bad="below 50% Envoy sends to all of them, healthy or not (panic)",
                        then="*Which servers does it trust?* says whether health checks or "
                        "ejections took them out",
                    ),
                    "percentunit",
                    now(
                        f"min(envoy_cluster_membership_healthy{{{UPSTREAM}}}"
                        f" / (envoy_cluster_membership_total{{{UPSTREAM}}} > 0))"
                    ),
                    limits=Limits(1, 0.5, falling=True),
                    decimals=0,
                ),
            ),
            (
                3,
                number(
                    "How many are ejected now?",
                    Says(
                        "Servers that outlier detection keeps out of the balancing now; the "
                        "worst gateway.",
                        good="0",
                        bad="any for longer than a minute: that server fails requests though "
                        "its probe is well",
                        then="Service, by pod: its codes; then its log",
                    ),
                    "none",
                    now(f"max(envoy_cluster_outlier_detection_ejections_active{{{UPSTREAM}}})"),
                    limits=Never(),
                ),
            ),
            (
                3,
                number(
                    "How much is repeated?",
                    Says(
                        "Retries as a share of the requests to servers.",
                        good="0; a few in a roll-out",
                        bad="above 1%: users do not see it yet, and the servers carry more",
                        then="*What becomes of retries?*",
                    ),
                    "percentunit",
                    now(
                        f"{per_second('envoy_cluster_upstream_rq_retry')} / ({per_second('envoy_cluster_upstream_rq_total')} > 0)"
                    ),
                    limits=Limits(0.001, 0.01),
                    empty="no traffic",
                    decimals=2,
                ),
            ),
            (
                3,
                number(
                    "Does it defend itself?",
                    Says(
                        "Actions and load shed points of the overload manager in force: shorter "
                        "time-outs, no keep-alive, no new requests or connections.",
                        good="0",
                        bad="any: the gateway is short of memory or connections",
                        then="*How close is the gateway to its own limits?*, then more "
                        "gateways or more memory",
                    ),
                    "none",
                    now(
                        f"count({{{ACTIONS}, {GATEWAY}}} > 0) or 0 * count({{{ACTIONS}, {GATEWAY}}})"
                    ),
                    limits=Never(),
                ),
            ),
            (
                3,
                number(
                    "Is a circuit open?",
                    Says(
                        "Circuit breakers of the servers' cluster that are open: connections, "
                        "waiting requests, requests, "
                        "retries, pools.",
                        good="0",
                        bad="any: what is beyond the limit is answered 503 at once",
                        then="*Are there connections enough?* names it; the limits are "
                        "upstream.limits of the chart",
                    ),
                    "none",
                    now(f'sum({{__name__=~"{CIRCUITS}", {UPSTREAM}}})'),
                    limits=Never(),
                ),
            ),
        ),
    ),
)
