"""Overview: is the user well, since when not, and where is the trouble?"""

from grafana.board import Board, link
from grafana.changes import MARKS
from grafana.panels import (
    HARMLESS,
    Above,
    Column,
    Limits,
    Never,
    Says,
    bars,
    cells,
    heat_map,
    lines,
    number,
    states,
)
from grafana.queries import (
    GATEWAY,
    JOB,
    POD,
    buckets,
    firing,
    now,
    over_time,
    quantile,
    raised,
    rate,
    rows,
)
from grafana.variables import COMMON

BOARD = Board(
    uid="corelane-overview",
    title="Corelane / Overview",
    description="Is the user well? If not: since when, and which route, pod, lane or node is it?",
    variables=COMMON,
    marks=MARKS,
)

CRITICAL = firing('severity="critical", ')

BURN = Limits(1, 14.4)
"""At 1 the budget lasts just as long as the objective's window; at 14.4 two hundredths of 30 days go in an hour."""


def _burn(window: str) -> str:
    return (
        f"max by (slo) (job_slo:corelane_slo_errors:ratio_rate{window}{{{GATEWAY}}}"
        " / on (slo) group_left () (1 - slo:corelane_slo_objective:ratio))"
    )


BOARD.row(
    3,
    (
        3,
        number(
            "Is somebody woken?",
            Says(
                "Critical alerts of Corelane that fire now.",
                "0",
                "anything else: users are hurt, or will be within a day",
                "read the table *Which alerts fire?* and open the runbook that the alert names",
            ),
            "none",
            now(f"count({CRITICAL}) or vector(0)"),
            limits=Never(),
        ),
    ),
    (
        3,
        number(
            "Are requests answered?",
            Says(
                "Share of the requests at the gateway, within five minutes, that were not answered 5xx. What a "
                "retry has mended counts as answered.",
                "at least the objective, which is 99.9% as shipped",
                "below it: users see errors",
                "look at *Which route fails?*; if no route fails, the gateway itself answers: open Gateway",
            ),
            "percentunit",
            now(
                f'1 - max(job_slo:corelane_slo_errors:ratio_rate5m{{{GATEWAY}, slo="availability"}})'
            ),
            limits=Limits(0.999, 0.99, falling=True),
            empty="no traffic",
            decimals=2,
            link=link("Gateway", "corelane-gateway"),
        ),
    ),
    (
        3,
        number(
            "Are they fast enough?",
            Says(
                "Share of the requests at the gateway, within five minutes, that were answered within the "
                "threshold of the latency objective, which is 250 ms as shipped.",
                "at least 99%",
                "below it: users wait",
                "look at *Which route is slow?* and *Which lane queues?*",
            ),
            "percentunit",
            now(f'1 - max(job_slo:corelane_slo_errors:ratio_rate5m{{{GATEWAY}, slo="latency"}})'),
            limits=Limits(0.99, 0.95, falling=True),
            empty="no traffic",
            decimals=2,
            link=link("Service", "corelane-service"),
        ),
    ),
    (
        3,
        number(
            "How much budget is left?",
            Says(
                "Of the errors that the objectives allow within three days, the share that is left; the worse of "
                "availability and latency.",
                "above 25%",
                "at 0 the promise is broken",
                "if it still falls, mend; if it does not, change nothing risky until it has recovered",
            ),
            "percentunit",
            now(f"min(job_slo:corelane_slo_budget_left:ratio{{{GATEWAY}}})"),
            limits=Limits(0.25, 0, falling=True),
            empty="no traffic",
            decimals=0,
            link=link("Service", "corelane-service"),
        ),
    ),
    (
        3,
        number(
            "How fast does it burn?",
            Says(
                "Errors of the last hour as a multiple of what the objectives allow; the worse of the two.",
                "below 1",
                "14.4 uses a fiftieth of a month's budget in an hour",
                "see in the panel below whether it still rises, then go by route",
            ),
            "none",
            now(f"max({_burn('1h')})"),
            limits=BURN,
            empty="no traffic",
            decimals=1,
            link=link("Service", "corelane-service"),
        ),
    ),
    (
        3,
        number(
            "How much is asked?",
            Says(
                "Requests that the servers finished each second, within a minute.",
                "what is usual at this hour; " + HARMLESS,
                "0, where somebody should be asking",
                "at 0 see whether the gateway gets requests (Gateway), or the servers are away (next number)",
            ),
            "reqps",
            now(f"sum(pod:corelane_requests:rate1m{{{JOB}}})"),
            link=link("Service", "corelane-service"),
        ),
    ),
    (
        3,
        number(
            "Are the servers there?",
            Says(
                "Share of the servers that Prometheus knows which are ready.",
                "100%; less for the time of a roll-out",
                "below 100% for longer: the others carry more",
                "see the phases in *What changed?*; a pod that is not scraped at all is red there",
            ),
            "percentunit",
            now(f"(sum(corelane_ready{{{JOB}}}) or vector(0)) / count(up{{{JOB}}})"),
            limits=Limits(1, 0.5, falling=True),
            decimals=0,
            link=link("Lanes", "corelane-lanes"),
        ),
    ),
    (
        3,
        number(
            "How full are they?",
            Says(
                "Requests now, as a share of what the servers carry at the present mix, by their load tables.",
                "below 70%",
                "above 90% queues grow without bound, and at 100% requests are shed",
                "open Capacity: it says how many servers are needed",
            ),
            "percentunit",
            now(f"max(job:corelane_capacity_used:ratio{{{JOB}}})"),
            limits=Limits(0.7, 0.9),
            empty="no traffic",
            decimals=0,
            link=link("Capacity", "corelane-capacity"),
        ),
    ),
)

BOARD.row(
    6,
    (
        8,
        lines(
            "How fast does the budget burn?",
            Says(
                "Errors as a multiple of what each objective allows, over five minutes and over an hour.",
                "below 1",
                "both windows above 14.4: the alert for people fires; above 1 for days: the promise will break",
                "the short window says whether it is over; if it is not, go by route",
            ),
            "none",
            over_time(_burn("5m"), "{{slo}}, 5 min"),
            over_time(_burn("1h"), "{{slo}}, 1 h"),
            limits=BURN,
        ),
    ),
    (
        8,
        lines(
            "How much is asked of which route?",
            Says(
                "Requests each second by route, as the servers count them.",
                "the usual shape; " + HARMLESS,
                "a route that appears, vanishes or grows where the others do not",
                "open Service for that route",
            ),
            "reqps",
            over_time(f"sum by (route) (route:corelane_requests:rate1m{{{JOB}}})", "{{route}}"),
            stacked=True,
        ),
    ),
    (
        8,
        lines(
            "Which errors do clients get?",
            Says(
                "Share of the gateway's replies of each class of errors, and of 5xx among the servers' own. Where "
                "the two differ, retries mended the rest, or the gateway itself answered.",
                "5xx at 0; 4xx as usual, for they are the clients' own",
                "5xx above 0.1%",
                "errors of the servers: *Which route fails?*; of the gateway alone: open Gateway",
            ),
            "percentunit",
            over_time(
                "sum by (envoy_response_code_class) ("
                + rate(
                    "envoy_http_downstream_rq_xx", f'{GATEWAY}, envoy_response_code_class=~"4|5"'
                )
                + f") / on () group_left () (sum({rate('envoy_http_downstream_rq_xx', GATEWAY)}) > 0)",
                "gateway {{envoy_response_code_class}}xx",
            ),
            over_time(
                f'(sum(route:corelane_requests:rate1m{{{JOB}, code=~"5.."}}) or vector(0))'
                f" / (sum(route:corelane_requests:rate1m{{{JOB}}}) > 0)",
                "servers 5xx",
            ),
            limits=Limits(0.001, 0.01),
        ),
    ),
)

BOARD.row(
    6,
    (
        8,
        heat_map(
            "How long do requests take?",
            Says(
                "Time from a request's header to the head of its reply, at the servers: each row is a bucket, and "
                "the darker it is, the more requests fell into it.",
                "one dark band, low",
                "a second band above the first (some requests wait or are slow), or a band that climbs",
                "a second band is mostly one route or one pod: see the bars below",
            ),
            "s",
            buckets(f"sum by (le) ({rate('corelane_request_duration_seconds_bucket', JOB)})"),
        ),
    ),
    (
        8,
        lines(
            "How slow are the slowest of a hundred?",
            Says(
                "99th percentile of the servers, and of the gateway, which adds the way there and its own queue.",
                "the two close together, below the threshold of the latency objective",
                "the gateway's far above the servers': connections, retries or the gateway's own CPU",
                "both high: open Lanes, a queue grows; only the gateway's: open Gateway",
            ),
            "s",
            over_time(quantile(0.99, "", "corelane_request_duration_seconds", JOB), "servers"),
            over_time(
                "(" + quantile(0.99, "", "envoy_http_downstream_rq_time", GATEWAY) + ") / 1000",
                "gateway",
            ),
            limits=Above(0.25),
        ),
    ),
    (
        8,
        states(
            "What changed?",
            Says(
                "The phase of each server over time. The marks on all panels are new versions and configurations, "
                "starts, drains, scaling and alerts.",
                "green throughout, or one server after the other in a roll-out",
                "red: a server that Prometheus cannot reach; orange for minutes: a drain that hangs",
                "compare the time of a change with the time at which the numbers above turned",
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
)

BOARD.row(
    6,
    (
        8,
        cells(
            "Which alerts fire?",
            Says(
                "Alerts of Corelane that fire now, with what they say of where.",
                "an empty table",
                "any row; critical ones first",
                "open dashboards/runbooks/ at the alert's name; each runbook begins with what to look at here",
            ),
            (
                Column("alertname", "Alert"),
                Column(
                    "severity",
                    "Severity",
                    values={"critical": ("critical", "red"), "warning": ("warning", "orange")},
                ),
                Column("route", "Route"),
                Column("pod", "Pod"),
                Column("node", "Node"),
            ),
            rows(f"max by (alertname, severity, route, pod, node) {firing()}"),
            sort="Severity",
            empty="no alert fires",
        ),
    ),
    (
        4,
        bars(
            "Which route fails?",
            Says(
                "Share of each route's replies that were 5xx, within five minutes; the five worst.",
                "0 everywhere",
                "above 0.1%",
                "click a bar: Service shows the route's codes, its phases and what it needs",
            ),
            "percentunit",
            now(
                f'topk(5, route_slo:corelane_slo_errors:ratio_rate5m{{{JOB}, slo="availability"}})',
                "{{route}}",
            ),
            limits=Limits(0.001, 0.01),
            empty="no traffic",
            link=link(
                "Service", "corelane-service", "var-route=${__field.labels.route:percentencode}"
            ),
        ),
    ),
    (
        4,
        bars(
            "Which route is slow?",
            Says(
                "99th percentile of each route within five minutes; the five slowest.",
                "what the route takes when it is alone (Lanes, load table)",
                "above the threshold of the latency objective",
                "click a bar: Service says in which phase the time goes",
            ),
            "s",
            now(
                f"topk(5, route:corelane_request_duration_seconds:p99_rate5m{{{JOB}}})", "{{route}}"
            ),
            limits=Limits(0.1, 0.25),
            empty="no traffic",
            link=link(
                "Service", "corelane-service", "var-route=${__field.labels.route:percentencode}"
            ),
        ),
    ),
    (
        4,
        bars(
            "Which lane queues?",
            Says(
                "99th percentile of the wait for a lane's slot, within five minutes; the five longest.",
                "below a few milliseconds",
                "above 50 ms: the lane is asked for more than it does",
                "click a bar: Lanes shows whether one lane or all of the pod are busy",
            ),
            "s",
            now(
                f"topk(5, pod_lane:corelane_request_phase_queue_seconds:p99_rate5m{{{POD}}})",
                "{{pod}} lane {{lane}}",
            ),
            limits=Limits(0.01, 0.05),
            empty="no traffic",
            link=link("Lanes", "corelane-lanes", "var-pod=${__field.labels.pod:percentencode}"),
        ),
    ),
    (
        4,
        bars(
            "Which node is not as it should be?",
            Says(
                "Settings that were refused or, in mode apply, differ from the node's profile, and pods whose "
                "pinning is not proven.",
                "0 everywhere",
                "anything else: neighbours or the kernel take time from pinned lanes",
                "click a bar: Nodes names the setting or the check",
            ),
            "none",
            now(
                """
                sum by (node) (
                  corelane_node_knob_settings{state="failed"}
                    or (
                      corelane_node_knob_settings{state="differs"}
                        and on (node) corelane_node_tuner_info{mode="apply"}
                    )
                    or (corelane_node_pods - corelane_node_pods_proven)
                    or 0 * corelane_node_last_pass_timestamp_seconds
                )
                """,
                "{{node}}",
            ),
            limits=Never(),
            empty="no node tuner",
            link=link("Nodes", "corelane-nodes", "var-node=${__field.labels.node:percentencode}"),
        ),
    ),
)

BOARD.folded(
    "Can this page be trusted?",
    (
        7,
        (
            (
                8,
                bars(
                    "Which parts does Prometheus not reach?",
                    Says(
                        "Targets of Corelane's jobs that did not answer the last scrape, by job.",
                        "0 for each job",
                        "above 0: what is missing is not in any panel",
                        "Prometheus' page /targets says why",
                    ),
                    "none",
                    now(
                        'count by (job) (up{job=~"$job|$gateway|gateway-agent|node-tuning"})'
                        ' - sum by (job) (up{job=~"$job|$gateway|gateway-agent|node-tuning"})',
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
                        "Evaluations of rules that failed, each second.",
                        "0",
                        "above 0: records in these panels and alerts are missing",
                        "Prometheus' page /rules names the rule and its error",
                    ),
                    "ops",
                    over_time(
                        raised(
                            "rule_group",
                            "sum by (rule_group)"
                            " (rate(prometheus_rule_evaluation_failures_total[$__rate_interval]))",
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
                        "well below the scrape's time-out, which is 10 s by default and 4 s in `make up`",
                        "close to it: samples will be missing just when the server is busy",
                        "the admin port has a thread of its own: see whether its node has CPU left",
                    ),
                    "s",
                    over_time(
                        "max by (job)"
                        ' (scrape_duration_seconds{job=~"$job|$gateway|gateway-agent|node-tuning"})',
                        "{{job}}",
                    ),
                    limits=Limits(1, 4),
                ),
            ),
        ),
    ),
)
