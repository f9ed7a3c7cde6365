"""How files are answered."""

from grafana.panels import HARMLESS, Limits, Says, lines
from grafana.queries import POD, over_time, quantile
from grafana.service.shared import summed

STATIC = f'{POD}, route=~"/static/.*"'
"""Routes of files."""

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "How are files answered?",
                    Says(
                        "Requests for files each second by code: 200 whole, 206 in part, 304 not "
                        "changed.",
                        good="mostly 200 and 304",
                        bad="404 that grow: a link is broken, or a scanner is about",
                        then="docs/static-files.md",
                    ),
                    "reqps",
                    over_time(summed("code", "corelane_requests_total", STATIC), "{{code}}"),
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
                        good="below a millisecond: small files come from memory",
                        bad="above 10 ms: the disk, or a busy lane",
                        then="Lanes; a disk is read beside the lane and does not hold it",
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
                        good="as fast as the clients' networks",
                        bad="seconds where clients are near",
                        then="slow clients are cut at timeouts.write; " + HARMLESS,
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
