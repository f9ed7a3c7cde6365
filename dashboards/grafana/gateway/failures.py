"""What fails between gateway and servers."""

from grafana.gateway.shared import UPSTREAM, per_second
from grafana.panels import Limits, Never, Says, lines
from grafana.queries import over_time

AGENT = 'namespace="$namespace", job="gateway-agent"'

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "Do connections to servers fail?",
                    Says(
                        "Connections that could not be made, each second, and those that ended "
                        "with a request on them.",
                        good="0; a few when a server is killed",
                        bad="for longer than a minute: a server that is gone is still known",
                        then="*Does the gateway know the servers?* below",
                    ),
                    "cps",
                    over_time(
                        per_second("envoy_cluster_upstream_cx_connect_fail"),
                        "refused or unreachable",
                    ),
                    over_time(per_second("envoy_cluster_upstream_cx_connect_timeout"), "timed out"),
                    over_time(
                        per_second("envoy_cluster_upstream_cx_destroy_remote_with_active_rq"),
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
                        "Requests to servers, each second, that timed out, were reset, or that "
                        "the client gave up.",
                        good="0 but for what clients give up",
                        bad="time-outs: a route is slower than upstream.timeout",
                        then="Service: which route is slow",
                    ),
                    "reqps",
                    over_time(per_second("envoy_cluster_upstream_rq_timeout"), "timed out"),
                    over_time(
                        per_second("envoy_cluster_upstream_rq_per_try_timeout"), "attempt timed out"
                    ),
                    over_time(
                        per_second("envoy_cluster_upstream_rq_rx_reset"), "reset by the server"
                    ),
                    over_time(
                        per_second("envoy_cluster_upstream_rq_tx_reset"), "reset by the gateway"
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Do health checks fail?",
                    Says(
                        "Health checks each second, by how they came out.",
                        good="successes only",
                        bad="failures for longer than a roll-out",
                        then="the admin port's /readyz of the server says why",
                    ),
                    "ops",
                    over_time(per_second("envoy_cluster_health_check_success"), "passed"),
                    over_time(per_second("envoy_cluster_health_check_failure"), "failed"),
                    over_time(
                        per_second("envoy_cluster_health_check_network_failure"), "unreachable"
                    ),
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
                        good="0",
                        bad="failure_percentage: it answers 5xx; local origin: it cannot be "
                        "reached",
                        then="the server's log and /lanes",
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
                        "Endpoints in the file that the agent writes, by state; only where the "
                        "agent runs.",
                        good="healthy equal to the ready pods",
                        bad="left_out above 0, or numbers that do not follow a roll-out",
                        then="gateway/endpoints.md",
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
                        "Time since the API server last said something to each agent; only "
                        "where the agent runs.",
                        good="below a minute or two",
                        bad="minutes: new pods get no requests. Envoy keeps the last endpoints",
                        then="the agent's log; its rights (RBAC) and the API server",
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
