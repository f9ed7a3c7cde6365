"""Service: what each route does (rate, errors, duration), and what it needs: database, files, tokens."""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.panels import HARMLESS, Limits, Never, Says, heat_map, lines, number
from grafana.queries import POD, POD_ROUTE, ROUTE, buckets, now, over_time, quantile, raised, rate
from grafana.variables import COMMON
from grafana.variables import ROUTE as ROUTES

BOARD = Board(
    uid="corelane-service",
    title="Corelane / Service",
    description="Each route's rate, errors and duration, then what it needs: database, files, tokens.",
    variables=(*COMMON, ROUTES),
    marks=MARKS,
)

STATIC = f'{POD}, route=~"/static/.*"'
"""Routes of files."""

FAILED = f'{POD_ROUTE}, code=~"5.."'

OWN_PHASES = f'{POD_ROUTE}, phase!="accept"'
"""Of a request; the phase accept belongs to its connection."""


def _by(labels: str, counter: str, matchers: str) -> str:
    return f"sum by ({labels}) ({rate(counter, matchers)})"


BOARD.row(
    3,
    (
        3,
        number(
            "How much is asked?",
            Says(
                "Requests each second of the routes and servers that are chosen.",
                "what is usual; " + HARMLESS,
                "0, where somebody should be asking",
                "see Gateway",
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
                "0",
                "above 0.1%",
                "*Which codes?* tells 500 (a bug, a panic) from 503 (shed, or a dependency is away)",
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
                "close to what the load table says of the route",
                "far above it: requests wait",
                "*In which phase is the time?*",
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
            "And the slowest of a hundred?",
            Says(
                "99 of a hundred requests took less.",
                "below the threshold of the latency objective",
                "above it",
                "*In which phase is the time?*",
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
                "Of the errors that the objectives allow within three days; the worst of the chosen routes.",
                "above 25%",
                "0 or less: this route breaks the promise",
                "see below whether it still fails",
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
                "0",
                "any: /projects of that server answers 503, everything else is served",
                "dashboards/runbooks/database.md",
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
                "some milliseconds",
                "above 100 ms",
                "row *Database*: is it the wait for a connection, or the operation?",
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
                "0",
                "any, if nobody drills: somebody forgot it. Each ends by itself within an hour",
                "`curl -X DELETE` on /faults of the admin port ends all; docs/faults.md",
            ),
            "none",
            now(f"sum(corelane_faults_active{{{POD}}}) or vector(0)"),
            limits=Limits(1, 1e9),
        ),
    ),
)

BOARD.row(
    7,
    (
        8,
        lines(
            "How much is asked of each route?",
            Says(
                "Requests each second.",
                "the usual shape; " + HARMLESS,
                "a route that appears or vanishes",
                "compare with the marks of what changed",
            ),
            "reqps",
            over_time(_by("route", "corelane_requests_total", POD_ROUTE), "{{route}}"),
            stacked=True,
        ),
    ),
    (
        8,
        lines(
            "How much of each route fails?",
            Says(
                "Share of each route's replies that were 5xx, within five minutes.",
                "0",
                "above 0.1%",
                "one route: its handler or its database; all: the servers (Lanes)",
            ),
            "percentunit",
            over_time(
                f'route_slo:corelane_slo_errors:ratio_rate5m{{{ROUTE}, slo="availability"}}',
                "{{route}}",
            ),
            limits=Limits(0.001, 0.01),
        ),
    ),
    (
        8,
        lines(
            "How slow is each route?",
            Says(
                "99th percentile of each route within five minutes.",
                "below the threshold of the latency objective, and level",
                "one route: its handler; all at once: lanes are busy",
                "*In which phase is the time?*",
            ),
            "s",
            over_time(
                f"route:corelane_request_duration_seconds:p99_rate5m{{{ROUTE}}}", "{{route}}"
            ),
            limits=Limits(0.1, 0.25),
            logarithmic=True,
        ),
    ),
)

BOARD.row(
    7,
    (
        8,
        lines(
            "Which codes?",
            Says(
                "Requests each second by code, but for 200.",
                "codes that the clients' requests deserve: 304, 404",
                "500: a bug or a panic. 503: shed, timed out, or the database is away. 499: clients leave",
                "500: the log; 503: Lanes, *Why are requests refused?*",
            ),
            "reqps",
            over_time(
                _by("code", "corelane_requests_total", POD_ROUTE + ', code!="200"'), "{{code}}"
            ),
            red="5..",
        ),
    ),
    (
        8,
        lines(
            "In which phase is the time?",
            Says(
                "Mean time of a request in each phase. `write` is the time until the socket took the last byte.",
                "most of it in the handler",
                "queue above handler: the lanes are too busy; write: clients read slowly",
                "queue: Lanes and Capacity; handler: the database below, or the code",
            ),
            "s",
            over_time(
                f"sum by (phase) ({rate('corelane_request_phase_seconds_sum', OWN_PHASES)})"
                f" / (sum by (phase) ({rate('corelane_request_phase_seconds_count', OWN_PHASES)}) > 0)",
                "{{phase}}",
            ),
            limits=Limits(0.1, 0.25),
        ),
    ),
    (
        8,
        heat_map(
            "How do durations scatter?",
            Says(
                "From a request's header to the head of its reply: each row a bucket, the darker the more.",
                "a band for each kind of request",
                "a band that climbs, or a new one above",
                "choose one route above, then one pod",
            ),
            "s",
            buckets(_by("le", "corelane_request_duration_seconds_bucket", POD_ROUTE)),
        ),
    ),
)

BOARD.folded(
    "Database: projects",
    (
        7,
        (
            (
                8,
                lines(
                    "What is asked of the database?",
                    Says(
                        "Operations each second, by kind.",
                        "the usual mix; " + HARMLESS,
                        "many lists or creates where there were none",
                        "docs/projects.md",
                    ),
                    "ops",
                    over_time(
                        _by("operation", "corelane_database_operations_total", POD), "{{operation}}"
                    ),
                    stacked=True,
                ),
            ),
            (
                8,
                lines(
                    "What comes of it?",
                    Says(
                        "Operations each second that were not simply done, by what they came to.",
                        "missing and conflict only: they are the clients' own",
                        "unavailable: it is down; exhausted: too many wait; timed_out, failed",
                        "dashboards/runbooks/database.md",
                    ),
                    "ops",
                    over_time(
                        _by(
                            "result", "corelane_database_operations_total", POD + ', result!="done"'
                        ),
                        "{{result}}",
                    ),
                    limits=Limits(1, 10),
                ),
            ),
            (
                8,
                lines(
                    "How long does an operation take?",
                    Says(
                        "99th percentile of each kind, waits included.",
                        "some milliseconds",
                        "above 100 ms",
                        "compare with the wait for a connection",
                    ),
                    "s",
                    over_time(
                        quantile(
                            0.99, "operation, ", "corelane_database_operation_duration_seconds", POD
                        ),
                        "{{operation}}",
                    ),
                    limits=Limits(0.05, 0.1),
                ),
            ),
        ),
    ),
    (
        7,
        (
            (
                6,
                lines(
                    "How long do operations wait?",
                    Says(
                        "Time until an operation had a connection: median and 99th percentile.",
                        "near 0",
                        "close to the time of the operation itself",
                        "more connections, or fewer servers for this database",
                    ),
                    "s",
                    over_time(
                        quantile(0.5, "", "corelane_database_connection_wait_seconds", POD), "p50"
                    ),
                    over_time(
                        quantile(0.99, "", "corelane_database_connection_wait_seconds", POD), "p99"
                    ),
                    limits=Limits(0.01, 0.05),
                ),
            ),
            (
                6,
                lines(
                    "Is the pool large enough?",
                    Says(
                        "Open connections, those in use, and operations that wait.",
                        "in use below open; nothing waits",
                        "in use at open with a queue: the pool, or the database, is full",
                        "docs/postgresql.md",
                    ),
                    "none",
                    over_time(f"sum(corelane_database_connections{{{POD}}})", "open"),
                    over_time(f"sum(corelane_database_connections_in_use{{{POD}}})", "in use"),
                    over_time(f"sum(corelane_database_queue_length{{{POD}}})", "waiting"),
                    limits=Limits(100, 1000),
                ),
            ),
            (
                6,
                lines(
                    "How long does a commit take?",
                    Says(
                        "Transactions of the SQLite writer, its wait for the lock included; with SQLite only.",
                        "what the disk takes to make a write durable, some milliseconds",
                        "above 100 ms: the disk is slow, or many servers share the file",
                        "PostgreSQL where several servers write",
                    ),
                    "s",
                    over_time(
                        quantile(0.5, "", "corelane_database_commit_duration_seconds", POD), "p50"
                    ),
                    over_time(
                        quantile(0.99, "", "corelane_database_commit_duration_seconds", POD), "p99"
                    ),
                    limits=Limits(0.05, 0.1),
                ),
            ),
            (
                6,
                lines(
                    "How many saves share a commit?",
                    Says(
                        "Changes that one transaction made durable, in the mean; with SQLite only.",
                        "1 with few clients; more as they become many: that is how it keeps up",
                        HARMLESS,
                        "compare with the time of a commit",
                    ),
                    "none",
                    over_time(
                        f"sum({rate('corelane_database_saves_per_commit_sum', POD)})"
                        f" / (sum({rate('corelane_database_saves_per_commit_count', POD)}) > 0)",
                        "saves per commit",
                    ),
                ),
            ),
        ),
    ),
)

BOARD.folded(
    "Files",
    (
        7,
        (
            (
                8,
                lines(
                    "How are files answered?",
                    Says(
                        "Requests for files each second by code: 200 whole, 206 in part, 304 not changed.",
                        "mostly 200 and 304",
                        "404 that grow: a link is broken, or a scanner is about",
                        "docs/static-files.md",
                    ),
                    "reqps",
                    over_time(_by("code", "corelane_requests_total", STATIC), "{{code}}"),
                    stacked=True,
                    red="404|5..",
                ),
            ),
            (
                8,
                lines(
                    "How long do files take?",
                    Says(
                        "Time to the head of the reply.",
                        "below a millisecond: small files come from memory",
                        "above 10 ms: the disk, or a busy lane",
                        "Lanes; a disk is read beside the lane and does not hold it",
                    ),
                    "s",
                    over_time(
                        quantile(0.5, "", "corelane_request_duration_seconds", STATIC), "p50"
                    ),
                    over_time(
                        quantile(0.99, "", "corelane_request_duration_seconds", STATIC), "p99"
                    ),
                    limits=Limits(0.01, 0.1),
                ),
            ),
            (
                8,
                lines(
                    "How long does their transfer take?",
                    Says(
                        "Phase *write*: until the socket has taken the last byte.",
                        "as fast as the clients' networks",
                        "seconds where clients are near",
                        "slow clients are cut at timeouts.write; " + HARMLESS,
                    ),
                    "s",
                    over_time(
                        quantile(
                            0.5, "", "corelane_request_phase_seconds", STATIC + ', phase="write"'
                        ),
                        "p50",
                    ),
                    over_time(
                        quantile(
                            0.99, "", "corelane_request_phase_seconds", STATIC + ', phase="write"'
                        ),
                        "p99",
                    ),
                ),
            ),
        ),
    ),
)

BOARD.folded(
    "Tokens, TLS, traces, drills",
    (
        7,
        (
            (
                6,
                lines(
                    "Who may write?",
                    Says(
                        "Requests each second that need a token, by whether they had one.",
                        "accepted only",
                        "invalid that grow: a token was taken out, or somebody tries",
                        "docs/authentication.md",
                    ),
                    "reqps",
                    over_time(_by("result", "corelane_auth_attempts_total", POD), "{{result}}"),
                    red="invalid|ambiguous",
                ),
            ),
            (
                6,
                lines(
                    "Are tokens and certificates current?",
                    Says(
                        "1 where what is in the files is in use.",
                        "1",
                        "0: the new file cannot be used, and the old one is kept",
                        "dashboards/runbooks/tokens.md and certificate.md",
                    ),
                    "none",
                    over_time(
                        f"min by (pod) (corelane_auth_up_to_date{{{POD}}})", "{{pod}} tokens"
                    ),
                    over_time(
                        f"min by (pod) (corelane_tls_certificate_up_to_date{{{POD}}})",
                        "{{pod}} certificate",
                    ),
                    limits=Limits(1, 1, falling=True),
                ),
            ),
            (
                6,
                lines(
                    "When does a certificate end?",
                    Says(
                        "Time until the certificate in use expires; only where a server speaks TLS.",
                        "more than a week",
                        "below a day: soon nobody can connect",
                        "dashboards/runbooks/certificate.md",
                    ),
                    "s",
                    over_time(
                        f"min by (pod) (corelane_tls_certificate_not_after_seconds{{{POD}}}) - time()",
                        "{{pod}}",
                    ),
                    limits=Limits(7 * 86400, 86400, falling=True),
                ),
            ),
            (
                6,
                lines(
                    "Do TLS handshakes succeed?",
                    Says(
                        "Ended handshakes each second by result; only where a server speaks TLS.",
                        "done only",
                        "failures in number: clients too old, or a certificate that they do not trust",
                        "docs/conformance.md lists versions and ciphers",
                    ),
                    "cps",
                    over_time(_by("result", "corelane_tls_handshakes_total", POD), "{{result}}"),
                    red="failure|timeout",
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
                    "Which faults are shown?",
                    Says(
                        "Requests each second that got a fault on request, by route and kind; only in a drill.",
                        "nothing, outside a drill",
                        "anything, if nobody drills",
                        "docs/faults.md",
                    ),
                    "reqps",
                    over_time(
                        raised("fault", _by("route, fault", "corelane_faults_injected_total", POD)),
                        "{{route}} {{fault}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Do traces arrive?",
                    Says(
                        "Spans each second that the collector took, and those that were dropped; only with a collector.",
                        "none dropped",
                        "dropped: the collector is away, or too slow",
                        "docs/logs.md",
                    ),
                    "ops",
                    over_time(f"sum({rate('corelane_spans_exported_total', POD)})", "exported"),
                    over_time(
                        _by("reason", "corelane_spans_dropped_total", POD), "dropped: {{reason}}"
                    ),
                    red="dropped.*",
                ),
            ),
            (
                8,
                lines(
                    "How much memory and how many files?",
                    Says(
                        "Resident memory of each server.",
                        "level; an idle connection takes 11 KiB",
                        "a line that climbs for days",
                        "Capacity has the files that are open",
                    ),
                    "bytes",
                    over_time(f"max by (pod) (process_resident_memory_bytes{{{POD}}})", "{{pod}}"),
                    limits=Limits(2**30, 2 * 2**30),
                ),
            ),
        ),
    ),
)
