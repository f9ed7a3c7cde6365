"""Retries, ejections, connections and cost."""

from grafana.gateway.shared import UPSTREAM, per_second
from grafana.panels import RELATIVE, Limits, Says, lines
from grafana.queries import GATEWAY, JOB, over_time, rate

ENVOY = 'namespace="$namespace", container="envoy"'

ROWS = (
    (
        8,
        (
            (
                6,
                lines(
                    "What becomes of retries?",
                    Says(
                        "Retries each second: how many, how many of them succeeded, and those "
                        "that were not made because "
                        "the limit of retries (overflow) or of attempts was reached.",
                        good="none, or all succeed",
                        bad="overflow: too many fail for retries to help; the errors reach users",
                        then="*Which servers does it trust?*, then the servers' codes in Service",
                    ),
                    "reqps",
                    over_time(per_second("envoy_cluster_upstream_rq_retry"), "retries"),
                    over_time(per_second("envoy_cluster_upstream_rq_retry_success"), "succeeded"),
                    over_time(
                        per_second("envoy_cluster_upstream_rq_retry_overflow"), "not made: budget"
                    ),
                    over_time(
                        per_second("envoy_cluster_upstream_rq_retry_limit_exceeded"),
                        "given up: attempts",
                    ),
                    limits=Limits(1, 10),
                ),
            ),
            (
                6,
                lines(
                    "Which servers does it trust?",
                    Says(
                        "Servers that are known, healthy, excluded and ejected; the highest or "
                        "lowest of the gateways; " + RELATIVE + ".",
                        good="healthy equal to known",
                        bad="ejected above 0, or healthy below known, outside a roll-out",
                        then="ejected: the server fails requests; unhealthy: it fails its "
                        "probe (/readyz says why)",
                    ),
                    "none",
                    over_time(f"max(envoy_cluster_membership_total{{{UPSTREAM}}})", "known"),
                    over_time(f"min(envoy_cluster_membership_healthy{{{UPSTREAM}}})", "healthy"),
                    over_time(f"max(envoy_cluster_membership_excluded{{{UPSTREAM}}})", "excluded"),
                    over_time(
                        f"max(envoy_cluster_outlier_detection_ejections_active{{{UPSTREAM}}})",
                        "ejected",
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
                        "Connections to the servers, requests in flight on them, requests that "
                        "wait for one, and what was "
                        "refused because a limit was reached.",
                        good="nothing waits and nothing overflows",
                        bad="waiting above 0 for longer, or any overflow",
                        then="raise upstream.limits, or find out why the servers are slow",
                    ),
                    "none",
                    over_time(
                        f"sum(envoy_cluster_upstream_cx_active{{{UPSTREAM}}})", "connections"
                    ),
                    over_time(f"sum(envoy_cluster_upstream_rq_active{{{UPSTREAM}}})", "in flight"),
                    over_time(
                        f"sum(envoy_cluster_upstream_rq_pending_active{{{UPSTREAM}}})", "waiting"
                    ),
                    over_time(
                        f"sum(increase(envoy_cluster_upstream_rq_pending_overflow{{{UPSTREAM}}}[$__rate_interval]))"
                        f" + sum(increase(envoy_cluster_upstream_cx_overflow{{{UPSTREAM}}}[$__rate_interval]))",
                        "overflow",
                    ),
                    limits=Limits(4096, 8192),
                    red="overflow",
                ),
            ),
            (
                6,
                lines(
                    "What does a request cost?",
                    Says(
                        "CPU time per request, of the servers and of the gateways. Envoy does "
                        "not count its own: it is "
                        "read from the node tuner's view of the pod, or from the kubelet's "
                        "(cAdvisor) where that is scraped.",
                        good="the gateway's some 26 µs (gateway/cost.md), the servers' as the "
                        "mix of routes asks for",
                        bad="a step after a change of configuration or version",
                        then="gateway/cost.md says which settings cost what",
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
        ),
    ),
)
