"""Stalls, panics, refusals and drains."""

from grafana.panels import Limits, Never, Says, lines
from grafana.queries import POD, over_time, raised, rate

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "Which route stalls a lane?",
                    Says(
                        "Times that a handler held its lane for longer than timeouts.stall, in "
                        "the range of a rate.",
                        good="0",
                        bad="any",
                        then="code that blocks or computes for long belongs into "
                        "corelane::blocking",
                    ),
                    "none",
                    over_time(
                        raised(
                            "route",
                            f"sum by (route) (increase(corelane_stalls_total{{{POD}}}[$__rate_interval]))",
                        ),
                        "{{route}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Why are requests refused?",
                    Says(
                        "Requests that were answered in place of their handler, each second, by "
                        "reason.",
                        good="0; `invalid`, `uri_too_long` and the like are the clients' own",
                        bad="queue_full, pool_full, request_timeout: the server could not",
                        then="docs/admin.md lists the reasons with their settings",
                    ),
                    "reqps",
                    over_time(
                        raised(
                            "reason",
                            f"sum by (reason) ({rate('corelane_requests_refused_total', POD)})",
                        ),
                        "{{reason}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Why are connections refused?",
                    Says(
                        "Connections that were refused or given up, each second, by reason.",
                        good="idle_timeout, age and requests only: they are no failure",
                        bad="limit or accept_error: nobody else gets in",
                        then="docs/admin.md lists the reasons with their settings",
                    ),
                    "cps",
                    over_time(
                        raised(
                            "reason",
                            f"sum by (reason) ({rate('corelane_connections_refused_total', POD)})",
                        ),
                        "{{reason}}",
                    ),
                    limits=Limits(10, 100),
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
                    "Do handlers panic?",
                    Says(
                        "Handlers and reply bodies that panicked, in the range of a rate. Each "
                        "is one 500.",
                        good="0",
                        bad="any: a bug",
                        then="the log has the panic with its route",
                    ),
                    "none",
                    over_time(
                        f"sum by (pod) (increase(corelane_panics_total{{{POD}}}[$__rate_interval]))",
                        "{{pod}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "Are lanes moved to other CPUs?",
                    Says(
                        "Times that a lane was pinned anew because its CPUs changed, in the "
                        "range of a rate.",
                        good="0",
                        bad="again and again: the kubelet rewrites the cpuset as pods come and go",
                        then="give the pods whole CPUs (Guaranteed, integer requests)",
                    ),
                    "none",
                    over_time(
                        f"sum by (pod) (increase(corelane_lane_repins_total{{{POD}}}[$__rate_interval]))",
                        "{{pod}}",
                    ),
                    limits=Limits(1, 10),
                ),
            ),
            (
                8,
                lines(
                    "Are drains orderly?",
                    Says(
                        "Seconds since a server that no longer serves began to drain.",
                        good="no line, or one below drain.deadline for a roll-out",
                        bad="a line that reaches the deadline: requests were cut",
                        then="the log of that pod names every five seconds what still hangs",
                    ),
                    "s",
                    over_time(
                        f"(time() - (corelane_drain_started_timestamp_seconds{{{POD}}} > 0))",
                        "{{pod}}",
                    ),
                    limits=Limits(15, 30),
                ),
            ),
        ),
    ),
)
