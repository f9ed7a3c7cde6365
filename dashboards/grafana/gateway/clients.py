"""Clients, and the gateway's own limits."""

from grafana.gateway.shared import per_second
from grafana.panels import HARMLESS, Limits, Says, bars, lines
from grafana.queries import GATEWAY, now, over_time, rate

PRESSURE = "envoy_overload_envoy_resource_monitors"

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "How many clients are there?",
                    Says(
                        "Connections of clients and requests in flight on them.",
                        good="what is usual; " + HARMLESS,
                        bad="connections that only grow",
                        then="*How close is the gateway to its own limits?*",
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
                        good="5xx at 0",
                        bad="4xx that grow: a client changed; 5xx: see Overview",
                        then="the access log has the path and why (response flags)",
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
                        "Connections and requests each second that ended before they were well "
                        "begun.",
                        good="near 0",
                        bad="protocol errors or header time-outs in number: broken or hostile "
                        "clients",
                        then="gateway/security.md; connections by address are in the access log",
                    ),
                    "ops",
                    over_time(
                        per_second("envoy_http_downstream_cx_protocol_error", GATEWAY),
                        "protocol error",
                    ),
                    over_time(
                        per_second("envoy_http_downstream_rq_header_timeout", GATEWAY),
                        "header too slow",
                    ),
                    over_time(
                        per_second("envoy_http_downstream_rq_rx_reset", GATEWAY),
                        "given up by the client",
                    ),
                    over_time(
                        per_second("envoy_listener_downstream_global_cx_overflow", GATEWAY),
                        "connection limit",
                    ),
                    limits=Limits(10, 100),
                    red="connection limit",
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
                        "Pressure of each resource that the overload manager watches: memory, "
                        "connections.",
                        good="below 80%",
                        bad="above 90% it shortens time-outs, then stops keep-alive, then "
                        "refuses requests",
                        then="more memory or more gateways",
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
                        good="level after the first hour",
                        bad="a line that climbs for days",
                        then="buffers of slow clients, or many connections: see the panels "
                        "beside it",
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
                        good="more than two weeks",
                        bad="below a week nobody has renewed it",
                        then="dashboards/runbooks/certificate.md",
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
