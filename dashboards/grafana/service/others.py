"""Tokens, TLS, traces, drills and memory."""

from grafana.panels import Limits, Never, Says, lines
from grafana.queries import POD, over_time, raised, rate
from grafana.service.shared import summed

ROWS = (
    (
        7,
        (
            (
                6,
                lines(
                    "Who may write?",
                    Says(
                        "Requests each second that need a token, by whether they had one.",
                        good="accepted only",
                        bad="invalid that grow: a token was taken out, or somebody tries",
                        then="docs/authentication.md",
                    ),
                    "reqps",
                    over_time(summed("result", "corelane_auth_attempts_total", POD), "{{result}}"),
                    red="invalid|ambiguous",
                ),
            ),
            (
                6,
                lines(
                    "Are tokens and certificates current?",
                    Says(
                        "1 where what is in the files is in use.",
                        good="1",
                        bad="0: the new file cannot be used, and the old one is kept",
                        then="dashboards/runbooks/tokens.md and certificate.md",
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
                        "Time until the certificate in use expires; only where a server speaks "
                        "TLS.",
                        good="more than a week",
                        bad="below a day: soon nobody can connect",
                        then="dashboards/runbooks/certificate.md",
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
                        good="done only",
                        bad="failures in number: clients too old, or a certificate that they do "
                        "not trust",
                        then="docs/conformance.md lists versions and ciphers",
                    ),
                    "cps",
                    over_time(summed("result", "corelane_tls_handshakes_total", POD), "{{result}}"),
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
                        "Requests each second that got a fault on request, by route and kind; "
                        "only in a drill.",
                        good="nothing, outside a drill",
                        bad="anything, if nobody drills",
                        then="docs/faults.md",
                    ),
                    "reqps",
                    over_time(
                        raised(
                            "fault", summed("route, fault", "corelane_faults_injected_total", POD)
                        ),
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
                        "Spans each second that the collector took, and those that were dropped; "
                        "only with a collector.",
                        good="none dropped",
                        bad="dropped: the collector is away, or too slow",
                        then="docs/logs.md",
                    ),
                    "ops",
                    over_time(f"sum({rate('corelane_spans_exported_total', POD)})", "exported"),
                    over_time(
                        summed("reason", "corelane_spans_dropped_total", POD), "dropped: {{reason}}"
                    ),
                    red="dropped.*",
                ),
            ),
            (
                8,
                lines(
                    "How much memory do servers use?",
                    Says(
                        "Resident memory of each server.",
                        good="level; an idle connection takes 11 KiB",
                        bad="a line that climbs for days",
                        then="compare with its connections (Lanes); open files are in Capacity",
                    ),
                    "bytes",
                    over_time(f"max by (pod) (process_resident_memory_bytes{{{POD}}})", "{{pod}}"),
                    limits=Limits(2**30, 2 * 2**30),
                ),
            ),
        ),
    ),
)
