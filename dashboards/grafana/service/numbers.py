"""Whether the chosen routes are well, in eight numbers."""

from grafana.panels import HARMLESS, Limits, Never, Says, number
from grafana.queries import POD, POD_ROUTE, ROUTE, now, quantile, rate

FAILED = f'{POD_ROUTE}, code=~"5.."'

ROWS = (
    (
        3,
        (
            (
                3,
                number(
                    "How much is asked?",
                    Says(
                        "Requests each second of the routes and servers that are chosen.",
                        good="what is usual; " + HARMLESS,
                        bad="0, where somebody should be asking",
                        then="see Gateway",
                    ),
                    "reqps",
                    now(f"sum({rate('corelane_requests_total', POD_ROUTE)})"),
                    empty="no traffic",
                ),
            ),
            (
                3,
                number(
                    "How much fails?",
                    Says(
                        "Share of those that were answered 5xx.",
                        good="0",
                        bad="above 0.1%",
                        then="*Which codes?* tells 500 (a bug, a panic) from 503 (shed, or a "
                        "dependency is away)",
                    ),
                    "percentunit",
                    now(
                        f"(sum({rate('corelane_requests_total', FAILED)}) or vector(0))"
                        f" / (sum({rate('corelane_requests_total', POD_ROUTE)}) > 0)"
                    ),
                    limits=Limits(0.001, 0.01),
                    empty="no traffic",
                    decimals=2,
                ),
            ),
            (
                3,
                number(
                    "How long does it take?",
                    Says(
                        "Half of the requests took less.",
                        good="close to what the load table says of the route",
                        bad="far above it: requests wait",
                        then="*In which phase is the time?*",
                    ),
                    "s",
                    now(quantile(0.5, "", "corelane_request_duration_seconds", POD_ROUTE)),
                    limits=Limits(0.05, 0.25),
                    empty="no traffic",
                ),
            ),
            (
                3,
                number(
                    "And the slowest of 100?",
                    Says(
                        "99 of a hundred requests took less.",
                        good="below the threshold of the latency objective",
                        bad="above it",
                        then="*In which phase is the time?*",
                    ),
                    "s",
                    now(quantile(0.99, "", "corelane_request_duration_seconds", POD_ROUTE)),
                    limits=Limits(0.1, 0.25),
                    empty="no traffic",
                ),
            ),
            (
                3,
                number(
                    "How much budget is left?",
                    Says(
                        "Of the errors that the objectives allow within three days; the worst of "
                        "the chosen routes.",
                        good="above 25%",
                        bad="0 or less: this route breaks the promise",
                        then="see below whether it still fails",
                    ),
                    "percentunit",
                    now(f"min(route_slo:corelane_slo_budget_left:ratio{{{ROUTE}}})"),
                    limits=Limits(0.25, 0, falling=True),
                    empty="no traffic",
                    decimals=0,
                ),
            ),
            (
                3,
                number(
                    "Can the database be used?",
                    Says(
                        "Servers that cannot use their database at this moment.",
                        good="0",
                        bad="any: /projects of that server answers 503, everything else is served",
                        then="dashboards/runbooks/database.md",
                    ),
                    "none",
                    now(f'sum(1 - corelane_dependency_up{{{POD}, dependency="database"}})'),
                    limits=Never(),
                    empty="no database",
                ),
            ),
            (
                3,
                number(
                    "How slow is the database?",
                    Says(
                        "99th percentile of an operation, waits included.",
                        good="some milliseconds",
                        bad="above 100 ms",
                        then="row *Database*: is it the wait for a connection, or the operation?",
                    ),
                    "s",
                    now(quantile(0.99, "", "corelane_database_operation_duration_seconds", POD)),
                    limits=Limits(0.05, 0.1),
                    empty="not asked",
                ),
            ),
            (
                3,
                number(
                    "Is this a drill?",
                    Says(
                        "Faults that somebody has told servers to show.",
                        good="0",
                        bad="any, if nobody drills: somebody forgot it. Each ends by itself "
                        "within an hour",
                        then="`curl -X DELETE` on /faults of the admin port ends all; "
                        "docs/faults.md",
                    ),
                    "none",
                    now(f"sum(corelane_faults_active{{{POD}}}) or vector(0)"),
                    limits=Limits(1, 1e9),
                ),
            ),
        ),
    ),
)
