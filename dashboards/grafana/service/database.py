"""What the database is asked, and how long that takes."""

from grafana.panels import HARMLESS, Limits, Says, lines
from grafana.queries import POD, over_time, quantile, rate
from grafana.service.shared import summed

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "What is asked of the database?",
                    Says(
                        "Operations each second, by kind.",
                        good="the usual mix; " + HARMLESS,
                        bad="many lists or creates where there were none",
                        then="docs/projects.md",
                    ),
                    "ops",
                    over_time(
                        summed("operation", "corelane_database_operations_total", POD),
                        "{{operation}}",
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
                        good="missing and conflict only: they are the clients' own",
                        bad="unavailable: it is down; exhausted: too many wait; timed_out, failed",
                        then="dashboards/runbooks/database.md",
                    ),
                    "ops",
                    over_time(
                        summed(
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
                        good="some milliseconds",
                        bad="above 100 ms",
                        then="compare with the wait for a connection",
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
                        good="near 0",
                        bad="close to the time of the operation itself",
                        then="more connections, or fewer servers for this database",
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
                        good="in use below open; nothing waits",
                        bad="in use at open with a queue: the pool, or the database, is full",
                        then="docs/postgresql.md",
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
                        "Transactions of the SQLite writer, its wait for the lock included; with "
                        "SQLite only.",
                        good="what the disk takes to make a write durable, some milliseconds",
                        bad="above 100 ms: the disk is slow, or many servers share the file",
                        then="PostgreSQL where several servers write",
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
                        good="1 with few clients; more as they become many: that is how it keeps "
                        "up",
                        bad=HARMLESS,
                        then="compare with the time of a commit",
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
