"""Whether the user is well, in eight numbers."""

from grafana.board import link
from grafana.overview.shared import BURN, burn
from grafana.panels import HARMLESS, Limits, Never, Says, number
from grafana.queries import GATEWAY, JOB, firing, now

CRITICAL = firing('severity="critical", ')

ROWS = (
    (
        3,
        (
            (
                3,
                number(
                    "Is somebody woken?",
                    Says(
                        "Critical alerts of Corelane that fire now.",
                        good="0",
                        bad="anything else: users are hurt, or will be within a day",
                        then="read the table *Which alerts fire?* and open the runbook that "
                        "the alert names",
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
                        "Share of the requests at the gateway, within five minutes, that were "
                        "not answered 5xx. What a "
                        "retry has mended counts as answered.",
                        good="at least the objective, which is 99.9% as shipped",
                        bad="below it: users see errors",
                        then="look at *Which route fails?*; if no route fails, the gateway "
                        "itself answers: open Gateway",
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
                        "Share of the requests at the gateway, within five minutes, that were "
                        "answered within the "
                        "threshold of the latency objective, which is 250 ms as shipped.",
                        good="at least 99%",
                        bad="below it: users wait",
                        then="look at *Which route is slow?* and *Which lane queues?*",
                    ),
                    "percentunit",
                    now(
                        f'1 - max(job_slo:corelane_slo_errors:ratio_rate5m{{{GATEWAY}, slo="latency"}})'
                    ),
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
                        "Of the errors that the objectives allow within three days, the share "
                        "that is left; the worse of "
                        "availability and latency.",
                        good="above 25%",
                        bad="at 0 the promise is broken",
                        then="if it still falls, mend; if it does not, change nothing risky "
                        "until it has recovered",
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
                        "Errors of the last hour as a multiple of what the objectives allow; "
                        "the worse of the two.",
                        good="below 1",
                        bad="14.4 uses a fiftieth of a month's budget in an hour",
                        then="see in the panel below whether it still rises, then go by route",
                    ),
                    "none",
                    now(f"max({burn('1h')})"),
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
                        good="what is usual at this hour; " + HARMLESS,
                        bad="0, where somebody should be asking",
                        then="at 0 see whether the gateway gets requests (Gateway), or the "
                        "servers are away (next number)",
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
                        good="100%; less for the time of a roll-out",
                        bad="below 100% for longer: the others carry more",
                        then="see the phases in *What changed?*; a pod that is not scraped at "
                        "all is red there",
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
                        "Requests now, as a share of what the servers carry at the present "
                        "mix, by their load tables.",
                        good="below 70%",
                        bad="above 90% queues grow without bound, and at 100% requests are shed",
                        then="open Capacity: it says how many servers are needed",
                    ),
                    "percentunit",
                    now(f"max(job:corelane_capacity_used:ratio{{{JOB}}})"),
                    limits=Limits(0.7, 0.9),
                    empty="no traffic",
                    decimals=0,
                    link=link("Capacity", "corelane-capacity"),
                ),
            ),
        ),
    ),
)
