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
    description="Rate, errors and duration of each route, plus calls to other services, database, files and tokens.",
)

PHASES = f'{POD_ROUTE}, phase!="accept"'
"""Excludes the accept phase, which belongs to a connection rather than a request."""

# Route records have no `pod` label, but these panels show the selected pods.
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

CLIENT = "corelane_client"


def mean(histogram: str, matchers: str, by: str = "") -> str:
    count = sum_rate(f"{histogram}_count", matchers, by)
    return f"{sum_rate(f'{histogram}_sum', matchers, by)} / ({count} > 0)"


def quantiles(histogram: str, matchers: str) -> dict[str, str]:
    """Returns the median and the 99th percentile."""
    return {f"p{share * 100:g}": quantile(share, histogram, matchers) for share in (0.5, 0.99)}


BOARD.row(
    3,
    number(
        "Request rate",
        "How much traffic is there? Requests per second of the selected routes and pods. If the rate "
        "is unexpectedly 0, see *Gateway*.",
        "reqps",
        sum_rate("corelane_requests_total", POD_ROUTE),
        empty="no traffic",
    ),
    number(
        "Error rate",
        "Do requests fail? Share of 5xx responses. Above 0.1%, see *Requests by status*: 500 means a bug or a panic; "
        "503 means shedding or a missing dependency.",
        "percentunit",
        error_rate(POD_ROUTE),
        limits=Limits(0.001, 0.01),
        empty="no traffic",
        decimals=2,
    ),
    number(
        "Request latency p50",
        "How long does a request take? If the latency is much higher than the route's lane time in the load table, "
        "requests wait: see *Time by phase*.",
        "s",
        quantile(0.5, "corelane_request_duration_seconds", POD_ROUTE),
        limits=Limits(0.05, 0.25),
        empty="no traffic",
    ),
    number(
        "Request latency p99",
        "How slow are the slowest requests? If the value exceeds the threshold of the latency objective, see *Time "
        "by phase*.",
        "s",
        quantile(0.99, "corelane_request_duration_seconds", POD_ROUTE),
        limits=Limits(0.1, 0.25),
        empty="no traffic",
    ),
    number(
        "Error budget left (3 d)",
        "Does the route meet its objective? Remaining error budget over 3 days, for the worst selected route. At 0, "
        "thirty days like these three would miss the objective.",
        "percentunit",
        f"min(route_slo:corelane_slo_budget_left:ratio{{{ROUTE}}})",
        limits=Limits(0.25, 0, falling=True),
        empty="no traffic",
        decimals=0,
    ),
    number(
        "Replicas without database",
        "Is the database reachable? Replicas that cannot use the database. Requests to /projects on these replicas get "
        "503, while all other routes work. Above 0, see dashboards/runbooks/database.md.",
        "none",
        f'sum(1 - corelane_dependency_up{{{POD}, dependency="database"}})',
        limits=NONZERO,
        empty="no database",
    ),
    number(
        "Database latency p99",
        "Is the database slow? Duration of an operation, including waits. Above 100 ms, the *Database* row shows "
        "whether the wait for a connection or the operation itself is slow.",
        "s",
        quantile(0.99, f"{DATABASE}_operation_duration_seconds", POD),
        limits=Limits(0.05, 0.1),
        empty="no operations",
    ),
    number(
        "Injected faults",
        "Is this a drill? Injected faults that are active; each fault expires within an hour. `curl -X DELETE` on "
        "the admin port's /faults path removes all faults: see docs/faults.md.",
        "none",
        f"sum(corelane_faults_active{{{POD}}}) or vector(0)",
        limits=Limits(1, 1e9),
    ),
)

BOARD.row(
    7,
    lines(
        "Request rate by route",
        "Has the mix changed? Requests per second. If a route appears or disappears, compare the time with the "
        "annotations.",
        "reqps",
        {"{{route}}": sum_rate("corelane_requests_total", POD_ROUTE, "route")},
        stacked=True,
        ranked=True,
    ),
    lines(
        "Error rate by route",
        "Which route fails? Share of 5xx responses in 5 minutes. If one route fails, check its handler or database. "
        "If all routes fail, check the replicas in *Lanes*.",
        "percentunit",
        {"{{route}}": ERRORS},
        limits=Limits(0.001, 0.01),
        ranked=True,
    ),
    lines(
        "Request latency p99 by route",
        "Which route is slow? 99th percentile in 5 minutes. If one route is slow, check its handler. If all routes "
        "are slow at once, the lanes are busy.",
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
        "Which status codes are sent? Requests per second, excluding 200. 500 means a bug or a panic: see the log. "
        "503 means overload, a timeout or the database: see *Rejected requests by reason* in *Lanes*. 499 means that "
        "clients disconnect.",
        "reqps",
        {"{{code}}": sum_rate("corelane_requests_total", POD_ROUTE + ', code!="200"', "code")},
        red="5..",
    ),
    lines(
        "Time by phase",
        "In which phase is the time spent? Mean of each phase. If the queue phase is longer than the handler phase, "
        "lanes are too busy. If the write phase is long, clients read slowly.",
        "s",
        {"{{phase}}": mean("corelane_request_phase_seconds", PHASES, "phase")},
        limits=Limits(0.1, 0.25),
    ),
    heat_map(
        "Request latency",
        "How is latency distributed? Each kind of request forms one band. For a new or rising band, select one "
        "route, then one pod. A dot is a request with a trace.",
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
        "Which operations does the service use? Operations per second by kind. docs/projects.md describes the "
        "operations.",
        "ops",
        {"{{operation}}": sum_rate(f"{DATABASE}_operations_total", POD, "operation")},
        stacked=True,
    ),
    lines(
        "Unsuccessful operations",
        "Do operations fail? Operations per second by result. missing and conflict are client errors. For "
        "unavailable, exhausted, timed_out and failed, see dashboards/runbooks/database.md.",
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
        "Which operation is slow? 99th percentile, including waits. Compare it with *Wait for a connection*.",
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
        "Is the pool too small? Time until an operation gets a connection. If it is close to the latency of the "
        "operation itself, use more connections or fewer replicas.",
        "s",
        quantiles(f"{DATABASE}_connection_wait_seconds", POD),
        limits=Limits(0.01, 0.05),
    ),
    lines(
        "Connection pool",
        "Is the pool exhausted? Open connections, connections in use, and waiting operations. If all connections are "
        "in use and operations queue, see docs/postgresql.md.",
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
        "Is the disk slow? Duration of SQLite writer transactions, including the wait for the lock. Above 100 ms, "
        "the disk is slow or too many replicas share one file: use PostgreSQL.",
        "s",
        quantiles(f"{DATABASE}_commit_duration_seconds", POD),
        limits=Limits(0.05, 0.1),
    ),
    lines(
        "Saves per commit (SQLite)",
        "Are writes grouped? Mean number of changes per transaction: 1 with few clients, higher with many.",
        "none",
        {"saves per commit": mean(f"{DATABASE}_saves_per_commit", POD)},
    ),
)

BOARD.folded("Calls to other services")
BOARD.row(
    7,
    lines(
        "Calls by outcome",
        "Do calls to other services succeed? Calls per second by callee and outcome. overloaded means that the callee "
        "sheds, deadline that no time was left: see docs/deadlines.md.",
        "reqps",
        {"{{callee}} {{outcome}}": sum_rate(f"{CLIENT}_requests_total", POD, "callee, outcome")},
        stacked=True,
        red=".*(server_error|overloaded|deadline|unresolved|unreachable|failed)",
    ),
    lines(
        "Call latency p99",
        "Which callee is slow? 99th percentile to the head of the response, including retries. Compare it with the "
        "callee's own latency.",
        "s",
        {"{{callee}}": quantile(0.99, f"{CLIENT}_request_duration_seconds", POD, "callee, ")},
        limits=Limits(0.1, 1),
    ),
    lines(
        "Retries of calls",
        "Does the client hide failures? Retries per second, retries that the budget denied, and the retries that the "
        "smallest budget allows. If retries are denied, see dashboards/runbooks/server.md.",
        "none",
        {
            "{{callee}} retried/s": sum_rate(f"{CLIENT}_retries_total", POD, "callee"),
            "{{callee}} denied/s": sum_rate(f"{CLIENT}_retries_denied_total", POD, "callee"),
            "{{callee}} budget": f"min by (callee) ({CLIENT}_retry_budget{{{POD}}})",
        },
        red=".*denied/s",
    ),
    lines(
        "Endpoints and connections of calls",
        "Does each replica see all replicas of the callee? Fewest known endpoints, ejections over all lanes, open "
        "connections and failed DNS queries. If endpoints are missing, check DNS.",
        "none",
        {
            "{{callee}} endpoints": f"min by (callee) ({CLIENT}_endpoints{{{POD}}})",
            "{{callee}} ejected": f"sum by (callee) ({CLIENT}_endpoints_ejected{{{POD}}})",
            "{{callee}} connections": f"sum by (callee) ({CLIENT}_connections{{{POD}}})",
            "{{callee}} DNS failures/s": sum_rate(
                f"{CLIENT}_resolutions_total", POD + ', result="failure"', "callee"
            ),
        },
        red=".*failures/s",
    ),
)

BOARD.folded("Static files")
BOARD.row(
    7,
    lines(
        "File requests by status",
        "What do file requests return? 200, 206 (range) and 304 (not modified) are normal. A growing rate of 404 "
        "means a broken link or a scanner: see docs/static-files.md.",
        "reqps",
        {"{{code}}": sum_rate("corelane_requests_total", STATIC, "code")},
        stacked=True,
        red="404|5..",
    ),
    lines(
        "File latency",
        "Are files slow? Time to the head of the response. Small files are served from memory in under a "
        "millisecond. Above 10 ms, the disk is slow or a lane is busy.",
        "s",
        quantiles("corelane_request_duration_seconds", STATIC),
        limits=Limits(0.01, 0.1),
    ),
    lines(
        "File transfer time",
        "Are clients slow? Duration of the write phase, until the socket accepts the last byte. At timeouts.write, "
        "the replica disconnects slow clients.",
        "s",
        quantiles("corelane_request_phase_seconds", STATIC + ', phase="write"'),
    ),
)

BOARD.folded("Tokens, TLS, traces, faults, memory")
BOARD.row(
    7,
    lines(
        "Authentication attempts",
        "Are tokens accepted? Requests per second that need a token, by result. If invalid grows, a token was "
        "removed or someone is guessing tokens: see docs/authentication.md.",
        "reqps",
        {"{{result}}": sum_rate("corelane_auth_attempts_total", POD, "result")},
        red="invalid|ambiguous",
    ),
    lines(
        "Tokens and certificates up to date",
        "Are the files in use? 1 means that the replica uses the current file. 0 means that the replica rejected the "
        "new file and kept the old one: see dashboards/runbooks/server.md and certificate.md.",
        "none",
        {
            "{{pod}} tokens": f"min by (pod) (corelane_auth_up_to_date{{{POD}}})",
            "{{pod}} certificate": f"min by (pod) (corelane_tls_certificate_up_to_date{{{POD}}})",
        },
        limits=Limits(1, 1, falling=True),
    ),
    lines(
        "Certificate expiry",
        "When does a certificate expire? Time until expiry, only with TLS. Below one day, clients will soon fail to "
        "connect: see dashboards/runbooks/certificate.md.",
        "s",
        {"{{pod}}": f"min by (pod) (corelane_tls_certificate_not_after_seconds{{{POD}}}) - time()"},
        limits=Limits(7 * 86400, 86400, falling=True),
    ),
    lines(
        "TLS handshakes",
        "Do TLS handshakes succeed? Handshakes per second by result, only with TLS. Failures come from old clients "
        "or clients that do not trust the certificate: see docs/conformance.md. Results starting with client_ mean "
        "that the server rejected the client's certificate: see docs/configuration.md.",
        "cps",
        {"{{result}}": sum_rate("corelane_tls_handshakes_total", POD, "result")},
        red="failure|timeout|client_.*",
    ),
)
BOARD.row(
    7,
    lines(
        "Injected faults by route",
        "Which requests get a fault? Injected faults per second by route and kind, only in a drill: see "
        "docs/faults.md.",
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
        "Do traces arrive? Exported and dropped spans per second, only with a collector. If spans are dropped, the "
        "collector is unreachable or too slow: see docs/logs.md.",
        "ops",
        {
            "exported": sum_rate("corelane_spans_exported_total", POD),
            "dropped: {{reason}}": sum_rate("corelane_spans_dropped_total", POD, "reason"),
        },
        red="dropped.*",
    ),
    lines(
        "Memory by pod",
        "Does a replica leak memory? Resident memory. A parked connection uses 0.5 KiB, a connection on hyper 11 "
        "KiB. Compare a rising line with *Connections by lane*.",
        "bytes",
        {"{{pod}}": f"max by (pod) (process_resident_memory_bytes{{{POD}}})"},
        limits=Limits(2**30, 2 * 2**30),
    ),
)
