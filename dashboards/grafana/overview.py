"""Overview: are users affected, since when, and where is the fault?"""

from grafana import runbooks
from grafana.board import Board, link
from grafana.panels import NONZERO, Column, Limits, bars, cells, heat_map, lines, number, states
from grafana.queries import (
    CLUSTER,
    GATEWAY,
    POD,
    ROUTE,
    SERVICE,
    active_since,
    firing,
    gateway_error_rate,
    gateway_quantile,
    quantile,
    raised,
    sum_rate,
    threshold,
)

BOARD = Board(
    uid="corelane-overview",
    title="Corelane / Overview",
    description="Service level of the platform, recent changes, and the route, pod, lane or node at fault.",
)

BURN = Limits(1, 14.4)
"""At a burn rate of 1, the budget lasts exactly as long as its window. At 14.4, one hour uses 2% of
a 30-day budget.
"""

TARGETS = f'{CLUSTER}, namespace="$namespace", service=~"$service|$gateway"'

CRITICAL = firing('severity="critical", ')

BEFORE = "gateway, a week ago"

RULES = f'{CLUSTER}, rule_group=~".+;corelane-.+"'
RULE_FAILURES = sum_rate("prometheus_rule_evaluation_failures_total", RULES, "rule_group")

PHASE = f"""
  max by (pod) (
    corelane_phase{{{SERVICE}, phase="serving"}}
      or 2 * corelane_phase{{{SERVICE}, phase="settling"}}
      or 3 * corelane_phase{{{SERVICE}, phase="closing"}}
      or 4 * corelane_phase{{{SERVICE}, phase="stopped"}}
      or (up{{{SERVICE}}} == 0)
  )
"""

NODE_PROBLEMS = f"""
  sum by (node) (
    corelane_node_knob_settings{{{CLUSTER}, state="failed"}}
      or (
        corelane_node_knob_settings{{{CLUSTER}, state="differs"}}
          and on (node) corelane_node_tuner_info{{{CLUSTER}, mode="apply"}}
      )
      or (corelane_node_pods{{{CLUSTER}}} - corelane_node_pods_proven{{{CLUSTER}}})
      or 0 * corelane_node_last_pass_timestamp_seconds{{{CLUSTER}}}
  )
"""


def objective_met(objective: str) -> str:
    errors = f'service_slo:corelane_slo_errors:ratio_rate5m{{{GATEWAY}, slo="{objective}"}}'
    return f"1 - max({errors})"


def burn_rate(window: str) -> str:
    return (
        f"max by (slo) (service_slo:corelane_slo_errors:ratio_rate{window}{{{GATEWAY}}}"
        f" / (1 - service_slo:corelane_slo_objective:ratio{{{GATEWAY}}}))"
    )


def targets(series: str) -> str:
    """A series of this platform's targets, including node tuners in their own namespace."""
    return f'({series}{{{TARGETS}}} or {series}{{{CLUSTER}, job="node-tuning"}})'


def alert_rows(alerts: str) -> str:
    """One row per alert, with one label for its subject and one for its runbook."""
    about = f'label_join({alerts}, "where", " ", "route", "pod", "node")'
    named = f'label_join({about}, "runbook", "", "alertname")'
    return f"max by (alertname, severity, where, runbook) ({named})"


BOARD.row(
    3,
    number(
        "Paging alerts firing",
        "Is someone being paged? Critical alerts that are firing. Above 0, users are affected or will be within a "
        "day: open the runbook of the alert in *Firing alerts*.",
        "none",
        f"count({CRITICAL}) or vector(0)",
        limits=NONZERO,
    ),
    number(
        "Availability",
        "Do requests succeed? Share of requests at the gateway in 5 minutes without a 5xx response; a request that a "
        "retry saved counts as a success. Below the objective (99.9% by default), see *Error rate by route*. If no "
        "route fails, the gateway itself sends the errors: see *Gateway*.",
        "percentunit",
        objective_met("availability"),
        limits=Limits(0.999, 0.99, falling=True),
        empty="no traffic",
        decimals=2,
        link=link("Gateway"),
    ),
    number(
        "Requests within threshold",
        "Are requests fast enough? Share of requests at the gateway in 5 minutes answered within the latency "
        "threshold (250 ms by default). Below 99%, see *Slowest routes* and *Longest queue times*.",
        "percentunit",
        objective_met("latency"),
        limits=Limits(0.99, 0.95, falling=True),
        empty="no traffic",
        decimals=2,
        link=link("Service"),
    ),
    number(
        "Error budget left (3 d)",
        "How many more errors does the objective allow in 3 days? Remaining budget for the worse of availability and "
        "latency. At 0, the last 3 days have used up their share, and 30 such days would miss the objective. Avoid "
        "risky changes until the budget recovers.",
        "percentunit",
        f"min(service_slo:corelane_slo_budget_left:ratio{{{GATEWAY}}})",
        limits=Limits(0.25, 0, falling=True),
        empty="no traffic",
        decimals=0,
        link=link("Service"),
    ),
    number(
        "Burn rate (1 h)",
        "How fast is the error budget spent? Errors in the last hour as a multiple of the errors that the objectives "
        "allow. A value of 14.4 spends 2% of a month's budget in an hour. *Error budget burn rate* shows whether the "
        "rate is still rising.",
        "none",
        f"max({burn_rate('1h')})",
        limits=BURN,
        empty="no traffic",
        decimals=1,
        link=link("Service"),
    ),
    number(
        "Request rate",
        "How much traffic is there? Requests per second at the replicas. If the rate is unexpectedly 0, "
        "check whether the gateway receives requests (*Gateway*) and whether replicas are ready.",
        "reqps",
        f"sum(pod:corelane_requests:rate1m{{{SERVICE}}})",
        link=link("Service"),
    ),
    number(
        "Ready replicas",
        "Are the replicas available? Share of known replicas that are ready. Below 100% outside a rollout, see "
        "*Replica phases*, which shows replicas that Prometheus cannot reach in red.",
        "percentunit",
        f"(sum(corelane_ready{{{SERVICE}}}) or vector(0)) / count(up{{{SERVICE}}})",
        limits=Limits(1, 0.5, falling=True),
        decimals=0,
        link=link("Lanes"),
    ),
    number(
        "Capacity used",
        "How close are the replicas to saturation? Request rate as a share of the capacity at the current mix, from "
        "the load tables. Above 90%, queues grow. At 100%, replicas shed requests. *Capacity* shows how many "
        "replicas are needed.",
        "percentunit",
        f"max(service:corelane_capacity_used:ratio{{{SERVICE}}})",
        limits=Limits(0.7, 0.9),
        empty="no traffic",
        decimals=0,
        link=link("Capacity"),
    ),
)

BOARD.row(
    6,
    lines(
        "Error budget burn rate",
        "Is the budget burning now? Errors as a multiple of the errors that each objective allows, over 5 minutes "
        "and 1 hour. If both are above 14.4, an alert pages someone. The short window shows when the problem ends.",
        "none",
        {"{{slo}}, 5 min": burn_rate("5m"), "{{slo}}, 1 h": burn_rate("1h")},
        limits=BURN,
    ),
    lines(
        "Request rate by route",
        "Has the mix changed? Requests per second at the replicas. Look for a route that appears, disappears or "
        "grows alone, and open it in *Service*.",
        "reqps",
        {
            "{{route}}": f"sum by (route) (route:corelane_requests:rate1m{{{ROUTE}}})",
            "all, a week ago": f"sum(route:corelane_requests:rate1m{{{ROUTE}}} offset 1w)",
        },
        stacked=True,
        ranked=True,
        past="all, a week ago",
    ),
    lines(
        "Error rate",
        "Which errors do clients get? Share of 5xx responses from the gateway and from the replicas. If the "
        "gateway's share is lower, retries hide errors. If it is higher, the gateway itself sends errors: see "
        "*Gateway*. If both rise, see *Error rate by route*.",
        "percentunit",
        {
            "gateway": gateway_error_rate(),
            "replicas": f'(sum(route:corelane_requests:rate1m{{{SERVICE}, code=~"5.."}}) or vector(0))'
            f" / (sum(route:corelane_requests:rate1m{{{SERVICE}}}) > 0)",
        },
        limits=Limits(0.001, 0.01),
    ),
)

BOARD.row(
    6,
    heat_map(
        "Request latency",
        "How is latency distributed? Time from a request's header to the head of its response, measured at the "
        "replicas. A second band is usually one route or pod. A rising band means queueing. A dot is a request with "
        "a trace.",
        "s",
        sum_rate("corelane_request_duration_seconds_bucket", SERVICE, "le"),
        traces=True,
    ),
    lines(
        "Request latency p99",
        "Does the gateway add latency? 99th percentile at the gateway and at the replicas, with the objective's "
        "threshold. If both are high, requests queue: see *Lanes*. If only the gateway's is high, check connections, "
        "retries and CPU in *Gateway*.",
        "s",
        {
            "replicas": quantile(0.99, "corelane_request_duration_seconds", SERVICE),
            "gateway": gateway_quantile(0.99),
            "objective": threshold(SERVICE),
            BEFORE: gateway_quantile(0.99, offset="1w"),
        },
        red="objective",
        past=BEFORE,
    ),
    states(
        "Replica phases",
        "What changed, and when? Phase of each replica. Red means that Prometheus cannot reach the replica. Orange "
        "for minutes means a stuck drain. Annotations on all panels mark versions, configurations, starts, drains, "
        "scaling and alerts.",
        {
            "0": ("unreachable", "red"),
            "1": ("serving", "green"),
            "2": ("settling", "yellow"),
            "3": ("closing", "orange"),
            "4": ("stopped", "dark-orange"),
        },
        {"{{pod}}": PHASE},
    ),
)

BOARD.row(
    6,
    cells(
        "Firing alerts",
        "What is wrong, and for how long? Firing Corelane alerts, and how long their condition has been true. Start "
        "with critical alerts. Click an alert to open its runbook.",
        (
            Column("alertname", "Alert"),
            Column(
                "severity",
                "Severity",
                values={"critical": ("critical", "red"), "warning": ("warning", "orange")},
            ),
            Column("Value #B", "Since", "dateTimeFromNow"),
            Column("where", "Where"),
            Column("runbook", "Runbook", link=runbooks.LINK, values=runbooks.texts()),
        ),
        alert_rows(firing()),
        f"1000 * {alert_rows(active_since())} and on (alertname, severity, where) {alert_rows(firing())}",
        sort="Severity",
        falling=False,
        empty="no alert is firing",
    ),
    bars(
        "Error rate by route",
        "Which route fails? The five routes with the highest share of 5xx responses in 5 minutes. Click a bar for "
        "the route's status codes, phases and dependencies.",
        "percentunit",
        {
            "{{route}}": "topk(5, route_slo:corelane_slo_errors:ratio_rate5m"
            f'{{{ROUTE}, slo="availability"}})'
        },
        limits=Limits(0.001, 0.01),
        empty="no traffic",
        link=link("Service", "var-route=${__field.labels.route:percentencode}"),
    ),
    bars(
        "Slowest routes",
        "Which route is slow? The five routes with the highest 99th percentile of latency in 5 minutes. Click a bar "
        "to see the time per phase.",
        "s",
        {"{{route}}": f"topk(5, route:corelane_request_duration_seconds:p99_rate5m{{{ROUTE}}})"},
        limits=Limits(0.1, 0.25),
        empty="no traffic",
        link=link("Service", "var-route=${__field.labels.route:percentencode}"),
    ),
    bars(
        "Longest queue times",
        "Which lane is overloaded? The five lanes with the longest wait for a slot (99th percentile over 5 minutes). "
        "Above 50 ms, the lane gets more work than it can handle. Click a bar for its pod.",
        "s",
        {
            "{{pod}} lane {{lane}}": "topk(5, "
            f"pod_lane:corelane_request_phase_queue_seconds:p99_rate5m{{{POD}}})"
        },
        limits=Limits(0.01, 0.05),
        empty="no traffic",
        link=link("Lanes", "var-pod=${__field.labels.pod:percentencode}"),
    ),
    bars(
        "Node problems: 0 is good",
        "Which node does not match its configuration? Settings that failed or (in apply mode) differ from the "
        "profile, and pods without proven pinning. Click a bar for the setting or check.",
        "none",
        {"{{node}}": NODE_PROBLEMS},
        limits=NONZERO,
        empty="no node tuner",
        link=link("Nodes", "var-node=${__field.labels.node:percentencode}"),
    ),
    widths=(9, 4, 4, 4, 3),
)

BOARD.folded("Monitoring health")
BOARD.row(
    7,
    bars(
        "Unreachable targets: 0 is good",
        "Is data missing on this page? Targets that did not respond to the last scrape, by job. The runbook of "
        "CorelaneTargetDown helps to find the reason.",
        "none",
        {"{{job}}": f"count by (job) {targets('up')} - sum by (job) {targets('up')}"},
        limits=NONZERO,
    ),
    lines(
        "Rule evaluation failures",
        "Are recording and alerting rules evaluated? Failed evaluations per second. Above 0, panels and alerts are "
        "incomplete; the runbook of CorelaneRulesFail helps to find the error.",
        "ops",
        {"{{rule_group}}": raised("rule_group", RULE_FAILURES)},
        limits=NONZERO,
    ),
    lines(
        "Scrape duration",
        "Will samples be missing? Slowest scrape of each job. Near the scrape timeout (10 s by default, 4 s in `make "
        "up`), Prometheus loses samples when the replica is busy.",
        "s",
        {"{{job}}": f"max by (job) {targets('scrape_duration_seconds')}"},
        limits=Limits(1, 4),
    ),
)
