"""Gateway: how Envoy spreads the load, and what retries and ejections hide."""

from grafana.board import Board
from grafana.panels import NONZERO, Limits, bars, lines, number
from grafana.queries import (
    CLUSTER,
    GATEWAY,
    POD,
    SERVICE,
    gateway_error_rate,
    gateway_quantile,
    quantile,
    sum_increase,
    sum_rate,
    threshold,
)
from grafana.variables import UPSTREAM as UPSTREAMS

BOARD = Board(
    uid="corelane-gateway",
    title="Corelane / Gateway",
    description="Envoy: load of each replica, retries, ejections, connections and CPU cost.",
    variables=(UPSTREAMS,),
)

UPSTREAM = (
    f'{GATEWAY}, envoy_cluster_name=~"$upstream", envoy_cluster_name!~"admin|collector|gateways"'
)
AGENT = f'{GATEWAY}, job="gateway-agent"'
ENVOY = f'{CLUSTER}, namespace="$namespace", container="envoy"'
STATS = "envoy_cluster"
EJECTIONS = f"{STATS}_outlier_detection_ejections"
PRESSURE = "envoy_overload_envoy_resource_monitors"

ACTIONS = (
    '__name__=~"envoy_overload_envoy_(overload_actions|load_shed_points)_.+_scale_percent",'
    ' __name__!~".+_shrink_heap_.+"'
)
"""Overload actions except shrink_heap, which clients do not notice."""

CIRCUITS = "|".join(
    f"{STATS}_circuit_breakers_default_{circuit}_open"
    for circuit in ("cx", "cx_pool", "rq_pending", "rq", "rq_retry")
)

RATE = f"sum by (pod) (pod:corelane_requests:rate1m{{{SERVICE}}})"

SHARE = f"""
  {RATE}
    / on () group_left () (sum(pod:corelane_requests:rate1m{{{SERVICE}}}) > 0)
"""

WEIGHT = f"""
  {RATE}
    / clamp_min(
      max by (pod) (pod:corelane_lane_busy:ratio_rate1m{{{SERVICE}}})
        + (
          {sum_rate("corelane_requests_total", SERVICE + ', code=~"5.."', "pod", "1m")}
            / ({RATE} > 0)
          or 0 * max by (pod) (pod:corelane_lane_busy:ratio_rate1m{{{SERVICE}}})
        ),
      0.02
    )
"""
"""Envoy's formula in client_side_weighted_round_robin: requests per second divided by utilisation
plus the share of errors. A load report never contains less than 0.02.
"""

# Use 15 minutes, because the node tuner checks at least every 5 minutes.
GATEWAY_CPU = f"""
  (
    sum(rate(corelane_node_pod_cpu_seconds_total{{{ENVOY}}}[15m]))
      or sum(rate(container_cpu_usage_seconds_total{{{ENVOY}}}[15m]))
  )
    / (sum(rate(envoy_http_downstream_rq_completed{{{GATEWAY}}}[15m])) > 0)
"""


def upstream(counter: str) -> str:
    return sum_rate(f"{STATS}_{counter}", UPSTREAM)


BOARD.row(
    3,
    number(
        "Request rate",
        "How much traffic is there? Requests per second that the gateways complete. If the rate is "
        "unexpectedly 0, check DNS, the load balancer and the gateway's Service.",
        "reqps",
        sum_rate("envoy_http_downstream_rq_completed", GATEWAY),
    ),
    number(
        "Error rate",
        "Do clients get errors? Share of 5xx responses. Above 0.1%, compare it with *Error rate* in *Overview* to "
        "see whether the replicas or the gateway itself sent the errors.",
        "percentunit",
        gateway_error_rate(),
        limits=Limits(0.001, 0.01),
        empty="no traffic",
        decimals=2,
    ),
    number(
        "Request latency p99",
        "How slow is the platform for clients? Time from a request's first byte to its response's last byte. Above "
        "the threshold, see *Request latency: gateway and replicas*.",
        "ms",
        quantile(0.99, "envoy_http_downstream_rq_time", GATEWAY),
        limits=Limits(100, 250),
        empty="no traffic",
    ),
    number(
        "Healthy replicas",
        "Does the gateway use all replicas? Share of known replicas that are healthy, at the worst gateway. Below "
        "50%, Envoy sends requests to all replicas (panic). See *Upstream membership*.",
        "percentunit",
        f"min({STATS}_membership_healthy{{{UPSTREAM}}}"
        f" / ({STATS}_membership_total{{{UPSTREAM}}} > 0))",
        limits=Limits(1, 0.5, falling=True),
        decimals=0,
    ),
    number(
        "Ejected replicas",
        "Does a replica fail requests although its probe passes? Replicas ejected by outlier detection, at the worst "
        "gateway. If the value is above 0 for over a minute, check the replica's status codes in *Service* and its "
        "log.",
        "none",
        f"max({EJECTIONS}_active{{{UPSTREAM}}})",
        limits=NONZERO,
    ),
    number(
        "Retry rate",
        "How many requests are retried? Retries as a share of requests to replicas. Above 1%, users do not notice it "
        "yet, but replicas get extra load: see *Retries*.",
        "percentunit",
        f"{upstream('upstream_rq_retry')} / ({upstream('upstream_rq_total')} > 0)",
        limits=Limits(0.001, 0.01),
        empty="no traffic",
        decimals=2,
    ),
    number(
        "Overload actions active",
        "Is the gateway short of memory or connections? Active actions of the overload manager: shorter timeouts, no "
        "keep-alive, rejected requests. See *Overload pressure*, and add memory or gateways.",
        "none",
        f"count({{{ACTIONS}, {GATEWAY}}} > 0) or 0 * count({{{ACTIONS}, {GATEWAY}}})",
        limits=NONZERO,
    ),
    number(
        "Open circuit breakers",
        "Is a limit for the replicas reached? Open breakers for connections, pending requests, requests, retries and "
        "pools. Above 0, excess requests get 503 immediately: see *Upstream connections*.",
        "none",
        f'sum({{__name__=~"{CIRCUITS}", {UPSTREAM}}})',
        limits=NONZERO,
    ),
)

BOARD.row(
    8,
    lines(
        "Request share by replica",
        "Is the load spread evenly? With least-request and equal replicas, the lines are close together. A replica "
        "near 0 is new or excluded from load balancing.",
        "percentunit",
        {
            "{{pod}}": f"sum by (pod) (pod:corelane_requests:rate1m{{{POD}}})"
            f" / on () group_left () (sum(pod:corelane_requests:rate1m{{{SERVICE}}}) > 0)",
            "even share": f"1 / count(corelane_build_info{{{SERVICE}}})",
        },
        ranked=True,
    ),
    lines(
        "Request share / share by load report",
        "Does load go to replicas with spare capacity? Above 1.25, a replica gets more requests than its load report "
        "(ORCA) suggests, and below 0.8 it gets fewer requests. If the imbalance persists with least-request, use "
        "the load-aware policy: see gateway/balancing.md.",
        "none",
        {
            "{{pod}}": f"({SHARE}) / on (pod)"
            f" (({WEIGHT}) / on () group_left () (sum({WEIGHT}) > 0) > 0)"
        },
        limits=Limits(1.25, 2),
        ranked=True,
    ),
    lines(
        "Request latency: gateway and replicas",
        "What does the gateway add? Median and 99th percentile. The gateway's figures include the transfer of the "
        "response. A large difference comes from waits for connections, retries or too little CPU.",
        "s",
        {
            "gateway p50": gateway_quantile(0.5),
            "gateway p99": gateway_quantile(0.99),
            "replicas p50": quantile(0.5, "corelane_request_duration_seconds", SERVICE),
            "replicas p99": quantile(0.99, "corelane_request_duration_seconds", SERVICE),
            "objective": threshold(GATEWAY),
        },
        red="objective",
        logarithmic=True,
    ),
)

BOARD.row(
    8,
    lines(
        "Retries",
        "Do retries help? Retries per second, successful retries, and retries prevented by the retry budget or the "
        "attempt limit. If the budget is exhausted, users get the errors: see *Upstream membership*, then *Service*.",
        "reqps",
        {
            "retries": upstream("upstream_rq_retry"),
            "succeeded": upstream("upstream_rq_retry_success"),
            "budget exhausted": upstream("upstream_rq_retry_overflow"),
            "attempts exhausted": upstream("upstream_rq_retry_limit_exceeded"),
        },
        limits=Limits(1, 10),
    ),
    lines(
        "Upstream membership",
        "Which replicas can be used? Known, healthy, excluded and ejected replicas. Outside a rollout, all should be "
        "healthy. Ejected replicas failed requests. For unhealthy replicas, /readyz shows the reason.",
        "none",
        {
            "known": f"max({STATS}_membership_total{{{UPSTREAM}}})",
            "healthy": f"min({STATS}_membership_healthy{{{UPSTREAM}}})",
            "excluded": f"max({STATS}_membership_excluded{{{UPSTREAM}}})",
            "ejected": f"max({EJECTIONS}_active{{{UPSTREAM}}})",
            "ejections": sum_increase(f"{EJECTIONS}_enforced_total", UPSTREAM),
        },
        red="ejected|excluded|ejections",
    ),
    lines(
        "Upstream connections",
        "Are there enough connections? Connections, requests in flight, pending requests, and requests rejected at a "
        "limit (overflow). If requests stay pending, raise upstream.limits or check why the replicas are slow.",
        "none",
        {
            "connections": f"sum({STATS}_upstream_cx_active{{{UPSTREAM}}})",
            "in flight": f"sum({STATS}_upstream_rq_active{{{UPSTREAM}}})",
            "pending": f"sum({STATS}_upstream_rq_pending_active{{{UPSTREAM}}})",
            "overflow": sum_increase(f"{STATS}_upstream_rq_pending_overflow", UPSTREAM)
            + " + "
            + sum_increase(f"{STATS}_upstream_cx_overflow", UPSTREAM),
        },
        limits=Limits(4096, 8192),
        red="overflow",
    ),
    lines(
        "CPU time per request",
        "Did a change make requests more expensive? CPU time of replicas and gateways. The node tuner or the kubelet "
        "(cAdvisor) provides Envoy's CPU time. About 26 µs at the gateway is normal: see gateway/cost.md.",
        "s",
        {
            "replicas": sum_rate("process_cpu_seconds_total", SERVICE)
            + f" / ({sum_rate('corelane_requests_total', SERVICE)} > 0)",
            "gateways": GATEWAY_CPU,
        },
        limits=Limits(0.001, 0.01),
    ),
)

BOARD.folded("Failures between gateway and replicas")
BOARD.row(
    7,
    lines(
        "Connection failures",
        "Can the gateway reach the replicas? Failed connections per second, and connections that a replica closed "
        "during a request. If failures last longer than a minute, the gateway still uses a replica that is gone: see "
        "*Endpoints*.",
        "cps",
        {
            "refused or unreachable": upstream("upstream_cx_connect_fail"),
            "timed out": upstream("upstream_cx_connect_timeout"),
            "closed during a request": upstream("upstream_cx_destroy_remote_with_active_rq"),
        },
        limits=NONZERO,
    ),
    lines(
        "Request failures",
        "Are requests cut off? Requests per second that timed out or were reset. Timeouts mean that a replica sends "
        "nothing for longer than upstream.timeout: see *Service*.",
        "reqps",
        {
            "timed out": sum_rate("envoy_http_downstream_rq_idle_timeout", GATEWAY),
            "attempt timed out": upstream("upstream_rq_per_try_timeout"),
            "reset by replica": upstream("upstream_rq_rx_reset"),
            "reset by gateway": upstream("upstream_rq_tx_reset"),
        },
        limits=NONZERO,
    ),
    lines(
        "Health checks",
        "Do replicas pass their health checks? Checks per second by result. If checks fail for longer than a "
        "rollout, /readyz on the replica's admin port shows the reason.",
        "ops",
        {
            "passed": upstream("health_check_success"),
            "failed": upstream("health_check_failure"),
            "unreachable": upstream("health_check_network_failure"),
        },
        red="failed|unreachable",
    ),
)
BOARD.row(
    7,
    lines(
        "Ejections by reason",
        "Why are replicas ejected? Ejections for 5xx responses, ejections for consecutive connection failures, "
        "resets or timeouts, and ejections skipped because too many replicas are out. See the replica's log and "
        "/lanes.",
        "none",
        {
            "failure percentage": sum_increase(
                f"{EJECTIONS}_enforced_failure_percentage", UPSTREAM
            ),
            "unreachable or silent": sum_increase(
                f"{EJECTIONS}_enforced_consecutive_gateway_failure", UPSTREAM
            ),
            "not ejected: too many": sum_increase(f"{EJECTIONS}_overflow", UPSTREAM),
        },
        limits=NONZERO,
    ),
    lines(
        "Endpoints",
        "Does the gateway know the replicas? Endpoints in the agent's files by cluster and state. The healthy "
        "endpoints should equal the ready pods and follow a rollout: see gateway/endpoints.md.",
        "none",
        {
            "{{envoy_cluster_name}} {{state}}": "max by (envoy_cluster_name, state) "
            f"(corelane_gateway_agent_endpoints{{{AGENT}}})"
        },
        red=".* left_out",
    ),
    lines(
        "Endpoint data age",
        "Is the endpoint list current? Time since each agent last received data from the API server, for the service "
        "with the oldest data. If the data is minutes old, new pods get no requests: check the agent's log, its RBAC "
        "permissions and the API server.",
        "s",
        {
            "{{pod}}": "time() - min by (pod) "
            f"(corelane_gateway_agent_last_sync_timestamp_seconds{{{AGENT}}})"
        },
        limits=Limits(300, 900),
    ),
)

BOARD.folded("Clients and limits of the gateway")
BOARD.row(
    7,
    lines(
        "Client connections",
        "How many clients are there? Connections and requests in flight. If the number of connections keeps growing, "
        "see *Overload pressure*.",
        "none",
        {
            "connections": f"sum(envoy_http_downstream_cx_active{{{GATEWAY}}})",
            "requests in flight": f"sum(envoy_http_downstream_rq_active{{{GATEWAY}}})",
        },
    ),
    lines(
        "Responses by status class",
        "Which responses do clients get? Responses per second by status class. If 4xx grows, a client changed. If "
        "5xx grows, see *Overview*. The access log contains the path and the response flags.",
        "reqps",
        {
            "{{envoy_response_code_class}}xx": sum_rate(
                "envoy_http_downstream_rq_xx", GATEWAY, "envoy_response_code_class"
            )
        },
        stacked=True,
        red="5xx",
    ),
    lines(
        "Client failures",
        "Do clients misbehave? Connections and requests per second that ended early. Many protocol errors or header "
        "timeouts come from broken or hostile clients: see gateway/security.md.",
        "ops",
        {
            "protocol error": sum_rate("envoy_http_downstream_cx_protocol_error", GATEWAY),
            "header timeout": sum_rate("envoy_http_downstream_rq_header_timeout", GATEWAY),
            "reset by client": sum_rate("envoy_http_downstream_rq_rx_reset", GATEWAY),
            "connection limit": sum_rate("envoy_listener_downstream_global_cx_overflow", GATEWAY),
        },
        limits=Limits(10, 100),
        red="connection limit",
    ),
)
BOARD.row(
    6,
    lines(
        "Rejections",
        "Which gateway check rejects clients? Rejected requests per second, only for enabled checks. If clients that "
        "should pass are rejected, see docs/gateway-security.md.",
        "reqps",
        {
            "rate limit": sum_rate("envoy_http_local_rate_limit_enforced", GATEWAY),
            "token": sum_rate("envoy_http_jwt_authn_denied", GATEWAY),
            "login": sum_rate("envoy_http_oauth_failure", GATEWAY),
            "API key": sum_rate("envoy_http_api_key_auth_unauthorized", GATEWAY),
            "password": sum_rate("envoy_http_basic_auth_denied", GATEWAY),
            "external authorization": sum_rate("envoy_http_ext_authz_denied", GATEWAY),
            "no authorization": sum_rate("envoy_http_ext_authz_error", GATEWAY),
            "claims or certificate": sum_rate("envoy_http_rbac_denied", GATEWAY),
            "origin": sum_rate("envoy_http_cors_origin_invalid", GATEWAY),
        },
    ),
)
BOARD.row(
    7,
    lines(
        "Overload pressure",
        "How close is the gateway to its limits? Memory and connections in use. Above 90%, the gateway shortens "
        "timeouts, then disables keep-alive, then rejects requests: add memory or gateways.",
        "percent",
        # Only one memory series exists, selected by the chart's overload.monitor.
        {
            "memory": f"max({PRESSURE}_cgroup_memory_pressure{{{GATEWAY}}})"
            f" or max({PRESSURE}_fixed_heap_pressure{{{GATEWAY}}})",
            "connections": f"max({PRESSURE}_global_downstream_max_connections_pressure{{{GATEWAY}}})",
        },
        limits=Limits(80, 90),
        top=100,
    ),
    lines(
        "Memory",
        "Does Envoy leak memory? Allocated and resident memory. Memory should be stable after an hour. Slow clients "
        "and many connections need buffers.",
        "bytes",
        {
            "{{pod}} allocated": f"max by (pod) (envoy_server_memory_allocated{{{GATEWAY}}})",
            "{{pod}} resident": f"max by (pod) (envoy_server_memory_physical_size{{{GATEWAY}}})",
        },
        limits=Limits(400 * 2**20, 500 * 2**20),
    ),
    bars(
        "Certificate expiry",
        "When does a certificate expire? Days until the first certificate of each gateway expires, only with TLS. "
        "Below a week, the renewal failed: see dashboards/runbooks/certificate.md.",
        "d",
        # Without a certificate, Envoy shows the largest 32-bit number.
        {
            "{{pod}}": "min by (pod) "
            f"(envoy_server_days_until_first_cert_expiring{{{GATEWAY}}} < 4294967295)"
        },
        limits=Limits(7, 1, falling=True),
        empty="no certificate",
    ),
)
