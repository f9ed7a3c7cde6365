"""Whether what is shown can be trusted."""

from grafana.panels import Limits, Never, Says, bars, lines
from grafana.queries import now, over_time, raised

PARTS = 'namespace="$namespace", job=~"$job|$gateway|gateway-agent"'


def targets(series: str) -> str:
    """Of this platform, and of the nodes' agents, which are in a namespace of their own."""
    return f'({series}{{{PARTS}}} or {series}{{job="node-tuning"}})'


ROWS = (
    (
        7,
        (
            (
                8,
                bars(
                    "Which parts does Prometheus not reach?",
                    Says(
                        "Targets of Corelane's jobs that did not answer the last scrape, by job.",
                        good="0 for each job",
                        bad="above 0: what is missing is not in any panel",
                        then="Prometheus' page /targets says why",
                    ),
                    "none",
                    now(
                        f"count by (job) {targets('up')} - sum by (job) {targets('up')}",
                        "{{job}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Do the rules evaluate?",
                    Says(
                        "Evaluations of Corelane's rules that failed, each second.",
                        good="0",
                        bad="above 0: records in these panels and alerts are missing",
                        then="Prometheus' page /rules names the rule and its error",
                    ),
                    "ops",
                    over_time(
                        raised(
                            "rule_group",
                            "sum by (rule_group)"
                            ' (rate(prometheus_rule_evaluation_failures_total{rule_group=~".+;corelane-.+"}'
                            "[$__rate_interval]))",
                        ),
                        "{{rule_group}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "How long does a scrape take?",
                    Says(
                        "The slowest scrape of each job.",
                        good="well below the scrape's time-out, which is 10 s by default and 4 "
                        "s in `make up`",
                        bad="close to it: samples will be missing just when the server is busy",
                        then="the admin port has a thread of its own: see whether its node has "
                        "CPU left",
                    ),
                    "s",
                    over_time(f"max by (job) {targets('scrape_duration_seconds')}", "{{job}}"),
                    limits=Limits(1, 4),
                ),
            ),
        ),
    ),
)
