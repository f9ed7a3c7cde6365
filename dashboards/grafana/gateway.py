"""Gateway: does it spread the load well, and what does it hide or add?"""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.panels import HARMLESS, RELATIVE, Above, Limits, Never, Says, bars, lines, number
from grafana.queries import GATEWAY, JOB, POD, now, over_time, quantile, rate
from grafana.variables import COMMON

BOARD = Board(
    uid="corelane-gateway",
    title="Corelane / Gateway",
    description="What Envoy does with the load: shares of the servers, retries, ejections, connections, its own cost.",
    variables=COMMON,
    marks=MARKS,
)

UPSTREAM = f'{GATEWAY}, envoy_cluster_name="server"'
ENVOY = 'namespace="$namespace", container="envoy"'
AGENT = 'namespace="$namespace", job="gateway-agent"'

ACTIONS = "|".join(
    f"envoy_overload_envoy_overload_actions_{action}_active"
    for action in ("reduce_timeouts", "disable_http_keepalive", "stop_accepting_requests")
)
CIRCUITS = "|".join(
    f"envoy_cluster_circuit_breakers_default_{circuit}_open"
    for circuit in ("cx", "cx_pool", "rq_pending", "rq", "rq_retry")
)
PRESSURE = "envoy_overload_envoy_resource_monitors"


def _per(counter: str, matchers: str = UPSTREAM) -> str:
    return f"sum({rate(counter, matchers)})"


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
"""What Envoy's client_side_weighted_round_robin makes of a load report: requests per second over utilization, to
which a penalty of 1 adds the share of errors. A report never says less than 0.02."""

BOARD.row(
    3,
    (
        3,
        number(
            "How much goes through?",
            Says(
                "Requests that the gateways finished each second.",
                "what is usual; " + HARMLESS,
                "0, where somebody should be asking",
                "at 0 look at what is in front: DNS, the load balancer, the Service",
            ),
            "reqps",
            now(_per("envoy_http_downstream_rq_completed", GATEWAY)),
        ),
    ),
    (
        3,
        number(
            "Do clients get 5xx?",
            Says(
                "Share of all replies to clients.",
                "0",
                "above 0.1%",
                "see whether the servers sent them (Overview, *Which errors do clients get?*) or the gateway did",
            ),
            "percentunit",
            now(
                _per("envoy_http_downstream_rq_xx", GATEWAY + ', envoy_response_code_class="5"')
                + f" / ({_per('envoy_http_downstream_rq_xx', GATEWAY)} > 0)"
            ),
            limits=Limits(0.001, 0.01),
            empty="no traffic",
            decimals=2,
        ),
    ),
    (
        3,
        number(
            "How slow is the slowest of a hundred?",
            Says(
                "99th percentile of the time from a request's first byte to the last byte of its reply.",
                "below the threshold of the latency objective",
                "above it",
                "*What does the gateway add?* says whether it is the gateway's own time",
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
            "How many servers does it use?",
            Says(
                "Servers that the gateways hold for healthy, as a share of those that they know; the worst gateway.",
                "100%",
                "below 50% Envoy sends to all of them, healthy or not (panic)",
                "*Which servers does it trust?* says whether health checks or ejections took them out",
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
                "Servers that outlier detection keeps out of the balancing now; the worst gateway.",
                "0",
                "any for longer than a minute: that server fails requests though its probe is well",
                "Service, by pod: its codes; then its log",
            ),
            "none",
            now(f"max(envoy_cluster_outlier_detection_ejections_active{{{UPSTREAM}}})"),
            limits=Never(),
        ),
    ),
    (
        3,
        number(
            "How many requests are repeated?",
            Says(
                "Retries as a share of the requests to servers.",
                "0; a few in a roll-out",
                "above 1%: users do not see it yet, and the servers carry more",
                "*What becomes of retries?*",
            ),
            "percentunit",
            now(
                f"{_per('envoy_cluster_upstream_rq_retry')} / ({_per('envoy_cluster_upstream_rq_total')} > 0)"
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
                "Actions of the overload manager in force: shorter time-outs, no keep-alive, no new requests.",
                "0",
                "any: the gateway is short of memory or connections",
                "*How close is the gateway to its own limits?*, then more gateways or more memory",
            ),
            "none",
            now(f'sum({{__name__=~"{ACTIONS}", {GATEWAY}}})'),
            limits=Never(),
        ),
    ),
    (
        3,
        number(
            "Is a circuit open?",
            Says(
                "Circuit breakers of the servers' cluster that are open: connections, waiting requests, requests, "
                "retries, pools.",
                "0",
                "any: what is beyond the limit is answered 503 at once",
                "*Are there connections enough?* names it; the limits are upstream.limits of the chart",
            ),
            "none",
            now(f'sum({{__name__=~"{CIRCUITS}", {UPSTREAM}}})'),
            limits=Never(),
        ),
    ),
)

BOARD.row(
    8,
    (
        9,
        lines(
            "Which share does each server get?",
            Says(
                "Each server's share of all requests; " + RELATIVE + ".",
                "alike, where servers have as many lanes each and the policy is least requests",
                "one line that leaves the others; a server near 0 is out of the balancing or new",
                "compare with the share by load report at the right",
            ),
            "percentunit",
            over_time(
                f"sum by (pod) (pod:corelane_requests:rate1m{{{POD}}})"
                f" / on () group_left () (sum(pod:corelane_requests:rate1m{{{JOB}}}) > 0)",
                "{{pod}}",
            ),
            over_time(f"1 / count(corelane_build_info{{{JOB}}})", "even share"),
        ),
    ),
    (
        8,
        lines(
            "Real share, over the share by load report?",
            Says(
                "Each server's share of requests divided by the share that Envoy's weighing of load reports "
                "(requests per second over utilization and share of errors) gives it. "
                + HARMLESS.capitalize()
                + " with other policies than load-aware.",
                "close to 1: load goes where there is room",
                "above 1.25: the server gets more than it has room for; below 0.8 it could take more",
                "with least requests and lasting differences, policy load-aware would even them out: gateway/balancing.md",
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
        ),
    ),
    (
        7,
        lines(
            "What does the gateway add?",
            Says(
                "Time to answer, at the gateways and at the servers: half of the requests, and all but one in a "
                "hundred. The gateways' includes the transfer of the reply.",
                "the gateways' median within a millisecond of the servers'",
                "the gateways' far above: waits for connections, retries, or no CPU left at the gateway",
                "*Are there connections enough?*, *What becomes of retries?*, *What does a request cost?*",
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
            over_time(quantile(0.5, "", "corelane_request_duration_seconds", JOB), "servers p50"),
            over_time(quantile(0.99, "", "corelane_request_duration_seconds", JOB), "servers p99"),
            limits=Above(0.25),
            logarithmic=True,
        ),
    ),
)

BOARD.row(
    8,
    (
        6,
        lines(
            "What becomes of retries?",
            Says(
                "Retries each second: how many, how many of them succeeded, and those that were not made because "
                "the limit of retries (overflow) or of attempts was reached.",
                "none, or all succeed",
                "overflow: too many fail for retries to help; the errors reach users",
                "*Which servers does it trust?*, then the servers' codes in Service",
            ),
            "reqps",
            over_time(_per("envoy_cluster_upstream_rq_retry"), "retries"),
            over_time(_per("envoy_cluster_upstream_rq_retry_success"), "succeeded"),
            over_time(_per("envoy_cluster_upstream_rq_retry_overflow"), "not made: budget"),
            over_time(_per("envoy_cluster_upstream_rq_retry_limit_exceeded"), "given up: attempts"),
            limits=Limits(1, 10),
        ),
    ),
    (
        6,
        lines(
            "Which servers does it trust?",
            Says(
                "Servers that are known, healthy, excluded and ejected; the highest or lowest of the gateways; "
                + RELATIVE
                + ".",
                "healthy equal to known",
                "ejected above 0, or healthy below known, outside a roll-out",
                "ejected: the server fails requests; unhealthy: it fails its probe (/readyz says why)",
            ),
            "none",
            over_time(f"max(envoy_cluster_membership_total{{{UPSTREAM}}})", "known"),
            over_time(f"min(envoy_cluster_membership_healthy{{{UPSTREAM}}})", "healthy"),
            over_time(f"max(envoy_cluster_membership_excluded{{{UPSTREAM}}})", "excluded"),
            over_time(
                f"max(envoy_cluster_outlier_detection_ejections_active{{{UPSTREAM}}})", "ejected"
            ),
            over_time(
                f"sum(increase(envoy_cluster_outlier_detection_ejections_enforced_total{{{UPSTREAM}}}[$__rate_interval]))",
                "ejections",
            ),
            red="ejected|excluded|ejections",
        ),
    ),
    (
        6,
        lines(
            "Are there connections enough?",
            Says(
                "Connections to the servers, requests in flight on them, requests that wait for one, and what was "
                "refused because a limit was reached.",
                "nothing waits and nothing overflows",
                "waiting above 0 for longer, or any overflow",
                "raise upstream.limits, or find out why the servers are slow",
            ),
            "none",
            over_time(f"sum(envoy_cluster_upstream_cx_active{{{UPSTREAM}}})", "connections"),
            over_time(f"sum(envoy_cluster_upstream_rq_active{{{UPSTREAM}}})", "in flight"),
            over_time(f"sum(envoy_cluster_upstream_rq_pending_active{{{UPSTREAM}}})", "waiting"),
            over_time(
                f"sum(increase(envoy_cluster_upstream_rq_pending_overflow{{{UPSTREAM}}}[$__rate_interval]))"
                f" + sum(increase(envoy_cluster_upstream_cx_overflow{{{UPSTREAM}}}[$__rate_interval]))",
                "overflow",
            ),
            limits=Limits(4096, 8192),
        ),
    ),
    (
        6,
        lines(
            "What does a request cost?",
            Says(
                "CPU time per request, of the servers and of the gateways. Envoy does not count its own: it is "
                "read from the node tuner's view of the pod, or from the kubelet's (cAdvisor) where that is scraped.",
                "the gateway's some 26 µs (gateway/cost.md), the servers' as the mix of routes asks for",
                "a step after a change of configuration or version",
                "gateway/cost.md says which settings cost what",
            ),
            "s",
            over_time(
                f"sum({rate('process_cpu_seconds_total', JOB)})"
                f" / (sum({rate('corelane_requests_total', JOB)}) > 0)",
                "servers",
            ),
            over_time(
                # Over 15 minutes, because the node tuner looks every 5 at the latest.
                f"""
                (
                  sum(rate(corelane_node_pod_cpu_seconds_total{{{ENVOY}}}[15m]))
                    or sum(rate(container_cpu_usage_seconds_total{{{ENVOY}}}[15m]))
                )
                  / (sum(rate(envoy_http_downstream_rq_completed{{{GATEWAY}}}[15m])) > 0)
                """,
                "gateways",
            ),
            limits=Limits(0.001, 0.01),
        ),
    ),
)

BOARD.folded(
    "Failures between gateway and servers",
    (
        7,
        (
            (
                8,
                lines(
                    "Do connections to servers fail?",
                    Says(
                        "Connections that could not be made, each second, and those that ended with a request on them.",
                        "0; a few when a server is killed",
                        "for longer than a minute: a server that is gone is still known",
                        "*Does the gateway know the servers?* below",
                    ),
                    "cps",
                    over_time(
                        _per("envoy_cluster_upstream_cx_connect_fail"), "refused or unreachable"
                    ),
                    over_time(_per("envoy_cluster_upstream_cx_connect_timeout"), "timed out"),
                    over_time(
                        _per("envoy_cluster_upstream_cx_destroy_remote_with_active_rq"),
                        "closed by the server under a request",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Are requests cut?",
                    Says(
                        "Requests to servers, each second, that timed out, were reset, or that the client gave up.",
                        "0 but for what clients give up",
                        "time-outs: a route is slower than upstream.timeout",
                        "Service: which route is slow",
                    ),
                    "reqps",
                    over_time(_per("envoy_cluster_upstream_rq_timeout"), "timed out"),
                    over_time(
                        _per("envoy_cluster_upstream_rq_per_try_timeout"), "attempt timed out"
                    ),
                    over_time(_per("envoy_cluster_upstream_rq_rx_reset"), "reset by the server"),
                    over_time(_per("envoy_cluster_upstream_rq_tx_reset"), "reset by the gateway"),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Do health checks fail?",
                    Says(
                        "Health checks each second, by how they came out.",
                        "successes only",
                        "failures for longer than a roll-out",
                        "the admin port's /readyz of the server says why",
                    ),
                    "ops",
                    over_time(_per("envoy_cluster_health_check_success"), "passed"),
                    over_time(_per("envoy_cluster_health_check_failure"), "failed"),
                    over_time(_per("envoy_cluster_health_check_network_failure"), "unreachable"),
                    red="failed|unreachable",
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
                    "Why are servers ejected?",
                    Says(
                        "Ejections in the range of a rate, by what was seen.",
                        "0",
                        "failure_percentage: it answers 5xx; local origin: it cannot be reached",
                        "the server's log and /lanes",
                    ),
                    "none",
                    over_time(
                        "sum(increase(envoy_cluster_outlier_detection_ejections_enforced_failure_percentage"
                        f"{{{UPSTREAM}}}[$__rate_interval]))",
                        "share of failures",
                    ),
                    over_time(
                        "sum(increase(envoy_cluster_outlier_detection_ejections_enforced_consecutive_local_origin_failure"
                        f"{{{UPSTREAM}}}[$__rate_interval]))",
                        "unreachable",
                    ),
                    over_time(
                        "sum(increase(envoy_cluster_outlier_detection_ejections_enforced_consecutive_gateway_failure"
                        f"{{{UPSTREAM}}}[$__rate_interval]))",
                        "502 to 504 in a row",
                    ),
                    over_time(
                        "sum(increase(envoy_cluster_outlier_detection_ejections_overflow"
                        f"{{{UPSTREAM}}}[$__rate_interval]))",
                        "kept in: too many are out",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Does the gateway know the servers?",
                    Says(
                        "Endpoints in the file that the agent writes, by state; only where the agent runs.",
                        "healthy equal to the ready pods",
                        "left_out above 0, or numbers that do not follow a roll-out",
                        "gateway/endpoints.md",
                    ),
                    "none",
                    over_time(
                        f"max by (state) (corelane_gateway_agent_endpoints{{{AGENT}}})", "{{state}}"
                    ),
                    red="left_out",
                ),
            ),
            (
                8,
                lines(
                    "How old is what the agent knows?",
                    Says(
                        "Time since the API server last said something to each agent; only where the agent runs.",
                        "below a minute or two",
                        "minutes: new pods get no requests. Envoy keeps the last endpoints",
                        "the agent's log; its rights (RBAC) and the API server",
                    ),
                    "s",
                    over_time(
                        f"time() - max by (pod) (corelane_gateway_agent_last_sync_timestamp_seconds{{{AGENT}}})",
                        "{{pod}}",
                    ),
                    limits=Limits(300, 900),
                ),
            ),
        ),
    ),
)

BOARD.folded(
    "Clients, and the gateway's own limits",
    (
        7,
        (
            (
                8,
                lines(
                    "How many clients are there?",
                    Says(
                        "Connections of clients and requests in flight on them.",
                        "what is usual; " + HARMLESS,
                        "connections that only grow",
                        "*How close is the gateway to its own limits?*",
                    ),
                    "none",
                    over_time(f"sum(envoy_http_downstream_cx_active{{{GATEWAY}}})", "connections"),
                    over_time(
                        f"sum(envoy_http_downstream_rq_active{{{GATEWAY}}})", "requests in flight"
                    ),
                ),
            ),
            (
                8,
                lines(
                    "Which replies do clients get?",
                    Says(
                        "Replies each second by class of code.",
                        "5xx at 0",
                        "4xx that grow: a client changed; 5xx: see Overview",
                        "the access log has the path and why (response flags)",
                    ),
                    "reqps",
                    over_time(
                        "sum by (envoy_response_code_class) ("
                        + rate("envoy_http_downstream_rq_xx", GATEWAY)
                        + ")",
                        "{{envoy_response_code_class}}xx",
                    ),
                    stacked=True,
                    red="5xx",
                ),
            ),
            (
                8,
                lines(
                    "Do clients fail at the door?",
                    Says(
                        "Connections and requests each second that ended before they were well begun.",
                        "near 0",
                        "protocol errors or header time-outs in number: broken or hostile clients",
                        "gateway/security.md; connections by address are in the access log",
                    ),
                    "ops",
                    over_time(
                        _per("envoy_http_downstream_cx_protocol_error", GATEWAY), "protocol error"
                    ),
                    over_time(
                        _per("envoy_http_downstream_rq_header_timeout", GATEWAY), "header too slow"
                    ),
                    over_time(
                        _per("envoy_http_downstream_rq_rx_reset", GATEWAY), "given up by the client"
                    ),
                    over_time(
                        _per("envoy_listener_downstream_cx_overflow", GATEWAY), "connection limit"
                    ),
                    limits=Limits(10, 100),
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
                    "How close is the gateway to its own limits?",
                    Says(
                        "Pressure of each resource that the overload manager watches: memory, connections.",
                        "below 80%",
                        "above 90% it shortens time-outs, then stops keep-alive, then refuses requests",
                        "more memory or more gateways",
                    ),
                    "percent",
                    # Of memory there is one, by the chart's overload.monitor.
                    over_time(
                        f"max({PRESSURE}_cgroup_memory_pressure{{{GATEWAY}}})"
                        f" or max({PRESSURE}_fixed_heap_pressure{{{GATEWAY}}})",
                        "memory",
                    ),
                    over_time(
                        f"max({PRESSURE}_global_downstream_max_connections_pressure{{{GATEWAY}}})",
                        "connections",
                    ),
                    limits=Limits(80, 90),
                    top=100,
                ),
            ),
            (
                8,
                lines(
                    "How much memory do gateways use?",
                    Says(
                        "Memory that each Envoy has allocated, and what it holds of the system's.",
                        "level after the first hour",
                        "a line that climbs for days",
                        "buffers of slow clients, or many connections: see the panels beside it",
                    ),
                    "bytes",
                    over_time(
                        f"max by (pod) (envoy_server_memory_allocated{{{GATEWAY}}})",
                        "{{pod}} allocated",
                    ),
                    over_time(
                        f"max by (pod) (envoy_server_memory_physical_size{{{GATEWAY}}})",
                        "{{pod}} resident",
                    ),
                    limits=Limits(400 * 2**20, 500 * 2**20),
                ),
            ),
            (
                8,
                bars(
                    "When does a certificate end?",
                    Says(
                        "Days until the first certificate of each gateway expires; only with TLS.",
                        "more than two weeks",
                        "below a week nobody has renewed it",
                        "dashboards/runbooks/certificate.md",
                    ),
                    "d",
                    # Without a certificate Envoy shows the largest number of 32 bits.
                    now(
                        f"min by (pod) (envoy_server_days_until_first_cert_expiring{{{GATEWAY}}} < 4294967295)",
                        "{{pod}}",
                    ),
                    limits=Limits(7, 1, falling=True),
                    empty="no certificate",
                ),
            ),
        ),
    ),
)
