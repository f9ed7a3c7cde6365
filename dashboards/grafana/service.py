"""Service: rate, errors and duration of each route, and its dependencies."""

from grafana.board import Board
from grafana.panels import NONZERO, Limits, heat_map, lines, number
from grafana.queries import (
    POD,
    POD_ROUTE,
    ROUTE,
    error_rate,
    quantile,
    raised,
    sum_rate,
)

BOARD = Board(
    uid="corelane-service",
    title="Corelane / Service",
    description="Rate, errors and duration of each route; database, files, tokens.",
)

PHASES = f'{POD_ROUTE}, phase!="accept"'
"""Excludes the phase accept, which belongs to a connection, not to a request."""

# The records of routes keep no pod, but these panels show the selected pods.
REQUESTS = sum_rate("corelane_requests_total", POD_ROUTE, "route", "5m")
ERRORS = f"""
  (
    {sum_rate("corelane_requests_total", POD_ROUTE + ', code=~"5.."', "route", "5m")}
      or 0 * {REQUESTS}
  )
    / ({REQUESTS} > 0)
"""
P99 = f"""
  histogram_quantile(
    0.99,
    {sum_rate("corelane_request_duration_seconds_bucket", POD_ROUTE, "route, le", "5m")}
  ) >= 0
"""

STATIC = f'{POD}, route=~"/static/.*"'
DATABASE = "corelane_database"


def mean(histogram: str, matchers: str, by: str = "") -> str:
    """Returns the mean of a histogram's observations."""
    count = sum_rate(f"{histogram}_count", matchers, by)
    return f"{sum_rate(f'{histogram}_sum', matchers, by)} / ({count} > 0)"


def quantiles(histogram: str, matchers: str) -> dict[str, str]:
    """Returns the median and the 99th percentile."""
    return {f"p{share * 100:g}": quantile(share, histogram, matchers) for share in (0.5, 0.99)}


BOARD.row(
    3,
    number(
        "Request rate",
        "How much traffic is there? Requests per second of the selected routes and pods. If it is "
        "0 unexpectedly, see *Gateway*.",
        "reqps",
        sum_rate("corelane_requests_total", POD_ROUTE),
        empty="no traffic",
    ),
    number(
        "Error rate",
        "Do requests fail? Share of 5xx responses. Above 0.1% see *Requests by status*: 500 is a bug "
        "or a panic; 503 is shedding or a missing dependency.",
        "percentunit",
        error_rate(POD_ROUTE),
        limits=Limits(0.001, 0.01),
        empty="no traffic",
        decimals=2,
    ),
    number(
        "Request latency p50",
        "How long does a request take? Far above the route's lane time in the load table, requests "
        "wait: see *Time by phase*.",
        "s",
        quantile(0.5, "corelane_request_duration_seconds", POD_ROUTE),
        limits=Limits(0.05, 0.25),
        empty="no traffic",
    ),
    number(
        "Request latency p99",
        "How slow are the slowest requests? Above the threshold of the latency objective see *Time "
        "by phase*.",
        "s",
        quantile(0.99, "corelane_request_duration_seconds", POD_ROUTE),
        limits=Limits(0.1, 0.25),
        empty="no traffic",
    ),
    number(
        "Error budget left (3 d)",
        "Does the route meet its objective? What is left of the errors that 3 days allow, for the "
        "worst selected route. At 0 thirty days like these miss the objective.",
        "percentunit",
        f"min(route_slo:corelane_slo_budget_left:ratio{{{ROUTE}}})",
        limits=Limits(0.25, 0, falling=True),
        empty="no traffic",
        decimals=0,
    ),
    number(
        "Replicas without database",
        "Is the database reachable? Replicas that cannot use it; their /projects answers 503, "
        "everything else works. Above 0: dashboards/runbooks/database.md.",
        "none",
        f'sum(1 - corelane_dependency_up{{{POD}, dependency="database"}})',
        limits=NONZERO,
        empty="no database",
    ),
    number(
        "Database latency p99",
        "Is the database slow? Duration of an operation, including waits. Above 100 ms see the row "
        "*Database*: the wait for a connection, or the operation.",
        "s",
        quantile(0.99, f"{DATABASE}_operation_duration_seconds", POD),
        limits=Limits(0.05, 0.1),
        empty="no operations",
    ),
    number(
        "Injected faults",
        "Is this a drill? Faults that are being injected; each ends within an hour. "
        "`curl -X DELETE` on /faults of the admin port ends all; docs/faults.md.",
        "none",
        f"sum(corelane_faults_active{{{POD}}}) or vector(0)",
        limits=Limits(1, 1e9),
    ),
)

BOARD.row(
    7,
    lines(
        "Request rate by route",
        "Has the mix changed? Requests per second. Compare a route that appears or disappears with "
        "the annotations.",
        "reqps",
        {"{{route}}": sum_rate("corelane_requests_total", POD_ROUTE, "route")},
        stacked=True,
        ranked=True,
    ),
    lines(
        "Error rate by route",
        "Which route fails? Share of 5xx responses in 5 minutes. One route: its handler or database. "
        "All: the replicas, see *Lanes*.",
        "percentunit",
        {"{{route}}": ERRORS},
        limits=Limits(0.001, 0.01),
        ranked=True,
    ),
    lines(
        "Request latency p99 by route",
        "Which route is slow? 99th percentile in 5 minutes. One route: its handler. All at once: "
        "lanes are busy.",
        "s",
        {"{{route}}": P99},
        limits=Limits(0.1, 0.25),
        logarithmic=True,
        ranked=True,
        traces=True,
    ),
)

BOARD.row(
    7,
    lines(
        "Requests by status",
        "Which status codes are sent? Requests per second, without 200. 500: a bug or a panic, see "
        "the log. 503: overload, timeout or database, see *Rejected requests by reason* in *Lanes*. "
        "499: clients leave.",
        "reqps",
        {"{{code}}": sum_rate("corelane_requests_total", POD_ROUTE + ', code!="200"', "code")},
        red="5..",
    ),
    lines(
        "Time by phase",
        "In which phase is the time spent? Mean of each phase. Queue above handler: lanes are too "
        "busy. Write: clients read slowly.",
        "s",
        {"{{phase}}": mean("corelane_request_phase_seconds", PHASES, "phase")},
        limits=Limits(0.1, 0.25),
    ),
    heat_map(
        "Request latency",
        "How is latency distributed? One band for each kind of request. For a new or rising band "
        "select one route, then one pod. A dot is a request with a trace.",
        "s",
        sum_rate("corelane_request_duration_seconds_bucket", POD_ROUTE, "le"),
        traces=True,
    ),
)

BOARD.folded("Database")
BOARD.row(
    7,
    lines(
        "Operations",
        "Which operations does the service use? Operations per second by kind; docs/projects.md.",
        "ops",
        {"{{operation}}": sum_rate(f"{DATABASE}_operations_total", POD, "operation")},
        stacked=True,
    ),
    lines(
        "Unsuccessful operations",
        "Do operations fail? Per second by result. missing and conflict are client errors; "
        "unavailable, exhausted, timed_out and failed are not: dashboards/runbooks/database.md.",
        "ops",
        {
            "{{result}}": sum_rate(
                f"{DATABASE}_operations_total", POD + ', result!="done"', "result"
            )
        },
        limits=Limits(1, 10),
    ),
    lines(
        "Operation latency p99",
        "Which operation is slow? 99th percentile, including waits. Compare with *Wait for a "
        "connection*.",
        "s",
        {
            "{{operation}}": quantile(
                0.99, f"{DATABASE}_operation_duration_seconds", POD, "operation, "
            )
        },
        limits=Limits(0.05, 0.1),
    ),
)
BOARD.row(
    7,
    lines(
        "Wait for a connection",
        "Is the pool too small? Time until an operation has a connection. Near the latency of the "
        "operation itself: more connections, or fewer replicas.",
        "s",
        quantiles(f"{DATABASE}_connection_wait_seconds", POD),
        limits=Limits(0.01, 0.05),
    ),
    lines(
        "Connection pool",
        "Is the pool exhausted? Open connections, those in use, and waiting operations. All in use "
        "with a queue: docs/postgresql.md.",
        "none",
        {
            "open": f"sum({DATABASE}_connections{{{POD}}})",
            "in use": f"sum({DATABASE}_connections_in_use{{{POD}}})",
            "waiting": f"sum({DATABASE}_queue_length{{{POD}}})",
        },
        limits=Limits(100, 1000),
    ),
    lines(
        "Commit latency (SQLite)",
        "Is the disk slow? Transactions of the SQLite writer, including the wait for its lock. "
        "Above 100 ms: a slow disk, or too many replicas on one file; use PostgreSQL.",
        "s",
        quantiles(f"{DATABASE}_commit_duration_seconds", POD),
        limits=Limits(0.05, 0.1),
    ),
    lines(
        "Saves per commit (SQLite)",
        "Are writes grouped? Mean number of changes in a transaction: 1 with few clients, more "
        "with many.",
        "none",
        {"saves per commit": mean(f"{DATABASE}_saves_per_commit", POD)},
    ),
)

BOARD.folded("Static files")
BOARD.row(
    7,
    lines(
        "File requests by status",
        "How are files answered? 200, 206 (range) and 304 (not modified) are normal. Growing 404: a "
        "broken link or a scanner; docs/static-files.md.",
        "reqps",
        {"{{code}}": sum_rate("corelane_requests_total", STATIC, "code")},
        stacked=True,
        red="404|5..",
    ),
    lines(
        "File latency",
        "Are files slow? Time to the head of the response; small files come from memory in under a "
        "millisecond. Above 10 ms: the disk, or a busy lane.",
        "s",
        quantiles("corelane_request_duration_seconds", STATIC),
        limits=Limits(0.01, 0.1),
    ),
    lines(
        "File transfer time",
        "Are clients slow? The phase write: until the socket took the last byte. Slow clients are "
        "cut off at timeouts.write.",
        "s",
        quantiles("corelane_request_phase_seconds", STATIC + ', phase="write"'),
    ),
)

BOARD.folded("Tokens, TLS, traces, faults, memory")
BOARD.row(
    7,
    lines(
        "Authentication attempts",
        "Are tokens accepted? Requests per second that need a token, by result. Growing invalid: a "
        "token was removed, or someone is guessing; docs/authentication.md.",
        "reqps",
        {"{{result}}": sum_rate("corelane_auth_attempts_total", POD, "result")},
        red="invalid|ambiguous",
    ),
    lines(
        "Tokens and certificates up to date",
        "Are the files in use? 1: the present file. 0: the new file cannot be used and the old one "
        "is kept; dashboards/runbooks/server.md and certificate.md.",
        "none",
        {
            "{{pod}} tokens": f"min by (pod) (corelane_auth_up_to_date{{{POD}}})",
            "{{pod}} certificate": f"min by (pod) (corelane_tls_certificate_up_to_date{{{POD}}})",
        },
        limits=Limits(1, 1, falling=True),
    ),
    lines(
        "Certificate expiry",
        "When does a certificate expire? Only with TLS. Below a day clients will soon fail to "
        "connect; dashboards/runbooks/certificate.md.",
        "s",
        {"{{pod}}": f"min by (pod) (corelane_tls_certificate_not_after_seconds{{{POD}}}) - time()"},
        limits=Limits(7 * 86400, 86400, falling=True),
    ),
    lines(
        "TLS handshakes",
        "Do TLS handshakes succeed? Per second by result; only with TLS. Failures: old clients, or "
        "a certificate that they do not trust; docs/conformance.md. client_: the client's "
        "certificate was refused; docs/configuration.md.",
        "cps",
        {"{{result}}": sum_rate("corelane_tls_handshakes_total", POD, "result")},
        red="failure|timeout|client_.*",
    ),
)
BOARD.row(
    7,
    lines(
        "Injected faults by route",
        "Which requests get a fault? Per second, by route and kind; only in a drill. docs/faults.md.",
        "reqps",
        {
            "{{route}} {{fault}}": raised(
                "fault", sum_rate("corelane_faults_injected_total", POD, "route, fault")
            )
        },
        limits=NONZERO,
    ),
    lines(
        "Trace spans",
        "Do traces arrive? Spans per second that were exported and dropped; only with a collector. "
        "Dropped: it is unreachable or too slow; docs/logs.md.",
        "ops",
        {
            "exported": sum_rate("corelane_spans_exported_total", POD),
            "dropped: {{reason}}": sum_rate("corelane_spans_dropped_total", POD, "reason"),
        },
        red="dropped.*",
    ),
    lines(
        "Memory by pod",
        "Does a replica leak memory? Resident memory; a parked connection takes 0.5 KiB, one with "
        "hyper 11 KiB. Compare a rising line with *Connections by lane*.",
        "bytes",
        {"{{pod}}": f"max by (pod) (process_resident_memory_bytes{{{POD}}})"},
        limits=Limits(2**30, 2 * 2**30),
    ),
)
