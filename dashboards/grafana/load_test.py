"""Load test: k6 beside the server's own view, so that who is slow is seen at once."""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.panels import HARMLESS, RELATIVE, Above, Limits, Never, Says, lines, number
from grafana.queries import GATEWAY, JOB, THRESHOLD, now, over_time, quantile
from grafana.variables import COMMON, TEST

BOARD = Board(
    uid="corelane-load-test",
    title="Corelane / Load test",
    description="What k6 sees beside what gateway and servers see. k6 writes its series with "
    "--out experimental-prometheus-rw.",
    variables=(*COMMON, TEST),
    start="now-15m",
    marks=MARKS,
)

K6 = 'testid=~"$testid"'
FAILED = f"""
  (sum(rate(k6_http_reqs_total{{{K6}, expected_response="false"}}[$__rate_interval])) or vector(0))
    / (sum(rate(k6_http_reqs_total{{{K6}}}[$__rate_interval])) > 0)
"""
"""k6_http_req_failed_rate is of each set of tags since the start, and cannot be added up."""

FROM_THE_START = (
    "k6 computes its quantiles over all requests since the start of the test, so they move slowly."
)

BOARD.row(
    3,
    (
        4,
        number(
            "How much does k6 ask?",
            Says(
                "Requests each second that k6 made.",
                good="the rate that the scenario names; " + HARMLESS,
                bad="below it: k6 could not start what was due",
                then="*Could k6 keep its rate?*",
            ),
            "reqps",
            now(f"sum(rate(k6_http_reqs_total{{{K6}}}[$__rate_interval]))"),
            empty="no test",
        ),
    ),
    (
        4,
        number(
            "How much fails at k6?",
            Says(
                "Share of requests that k6 counts as failed: no reply, or a status it did not "
                "expect.",
                good="0",
                bad="any",
                then="compare with the servers' 5xx below: what they never saw failed on the way",
            ),
            "percentunit",
            now(FAILED),
            limits=Limits(0.001, 0.01),
            empty="no test",
            decimals=2,
        ),
    ),
    (
        4,
        number(
            "Are replies right?",
            Says(
                "Share of checks that passed; the worst check.",
                good="100%",
                bad="below: a reply came, but a wrong one",
                then="k6's summary names the check",
            ),
            "percentunit",
            now(f"min(k6_checks_rate{{{K6}}})"),
            limits=Limits(1, 0.99, falling=True),
            empty="no test",
            decimals=2,
        ),
    ),
    (
        4,
        number(
            "How slow for k6?",
            Says(
                "99th percentile of k6; the slowest of its routes. " + FROM_THE_START,
                good="close to the gateway's",
                bad="far above it: the network or k6's own machine",
                then="*Who is slow?*",
            ),
            "s",
            now(f"max(k6_http_req_duration_p99{{{K6}}})"),
            limits=Limits(0.1, 0.25),
            empty="no test",
        ),
    ),
    (
        4,
        number(
            "Could k6 keep its rate?",
            Says(
                "Iterations each second that k6 did not start because no virtual user was free.",
                good="0",
                bad="any: the test measured k6, not the server. Its latencies are too good",
                then="more virtual users, or a machine of its own for k6",
            ),
            "ops",
            now(f"sum(rate(k6_dropped_iterations_total{{{K6}}}[$__rate_interval])) or vector(0)"),
            limits=Never(),
        ),
    ),
    (
        4,
        number(
            "How busy are the servers meanwhile?",
            Says(
                "Busiest lane of all servers.",
                good="below 70%, unless the test is to find the end",
                bad="above 90% the test measures the queue",
                then="Lanes",
            ),
            "percentunit",
            now(f"max(pod_lane:corelane_lane_busy:ratio_rate1m{{{JOB}}})"),
            limits=Limits(0.7, 0.9),
            decimals=0,
        ),
    ),
)

BOARD.row(
    9,
    (
        12,
        lines(
            "Who counts how many requests?",
            Says(
                "Requests each second at k6, at the gateways and at the servers.",
                good="three lines on one another",
                bad="gateway below k6: requests do not arrive; servers above gateway: retries; "
                "below: the gateway answers itself",
                then="Gateway for the two lower cases; " + HARMLESS,
            ),
            "reqps",
            over_time(f"sum(rate(k6_http_reqs_total{{{K6}}}[$__rate_interval]))", "k6"),
            over_time(
                f"sum(rate(envoy_http_downstream_rq_completed{{{GATEWAY}}}[$__rate_interval]))",
                "gateway",
            ),
            over_time(f"sum(rate(corelane_requests_total{{{JOB}}}[$__rate_interval]))", "servers"),
        ),
    ),
    (
        12,
        lines(
            "Who is slow?",
            Says(
                "99th percentile at k6, at the gateways and at the servers; "
                + RELATIVE
                + ". "
                + FROM_THE_START,
                good="lines close together",
                bad="where two lines part, the time is lost between the two",
                then="k6 and gateway part: network or k6; gateway and servers part: Gateway",
            ),
            "s",
            over_time(f"max(k6_http_req_duration_p99{{{K6}}})", "k6, the slowest route"),
            over_time(
                f"({quantile(0.99, '', 'envoy_http_downstream_rq_time', GATEWAY)}) / 1000",
                "gateway",
            ),
            over_time(quantile(0.99, "", "corelane_request_duration_seconds", JOB), "servers"),
            over_time(THRESHOLD, "objective"),
            red="objective",
            logarithmic=True,
        ),
    ),
)

BOARD.row(
    9,
    (
        8,
        lines(
            "Who counts how many failures?",
            Says(
                "Share of requests that failed: for k6, at the gateways (5xx) and at the "
                "servers (5xx).",
                good="0",
                bad="k6 above the gateways: connections broke; gateways above servers: the "
                "gateway answered itself",
                then="Gateway, *Are requests cut?*",
            ),
            "percentunit",
            over_time(FAILED, "k6"),
            over_time(
                f'sum(rate(envoy_http_downstream_rq_xx{{{GATEWAY}, envoy_response_code_class="5"}}[$__rate_interval]))'
                f" / (sum(rate(envoy_http_downstream_rq_xx{{{GATEWAY}}}[$__rate_interval])) > 0)",
                "gateway",
            ),
            over_time(
                f'(sum(rate(corelane_requests_total{{{JOB}, code=~"5.."}}[$__rate_interval])) or vector(0))'
                f" / (sum(rate(corelane_requests_total{{{JOB}}}[$__rate_interval])) > 0)",
                "servers",
            ),
            limits=Limits(0.001, 0.01),
        ),
    ),
    (
        8,
        lines(
            "Which route is slow for k6?",
            Says(
                "99th percentile of k6 by the name of its request. " + FROM_THE_START,
                good="level",
                bad="one route above the others",
                then="Service, that route",
            ),
            "s",
            over_time(f"max by (name) (k6_http_req_duration_p99{{{K6}}})", "{{name}}"),
            limits=Limits(0.1, 0.25),
            logarithmic=True,
            ranked=True,
        ),
    ),
    (
        8,
        lines(
            "Is k6 itself the limit?",
            Says(
                "Virtual users in use and at most, and iterations that were not started, each "
                "second; " + RELATIVE + ".",
                good="users in use well below the most; nothing dropped",
                bad="in use at the most: what comes is late, and what is not started is not "
                "measured",
                then="more users (--max-vus), or a machine of its own",
            ),
            "none",
            over_time(f"sum(k6_vus{{{K6}}})", "in use"),
            over_time(f"sum(k6_vus_max{{{K6}}})", "at most"),
            over_time(
                f"sum(rate(k6_dropped_iterations_total{{{K6}}}[$__rate_interval])) or vector(0)",
                "not started each second",
            ),
            red="not started each second",
        ),
    ),
)

BOARD.folded(
    "Where k6's time goes",
    (
        8,
        (
            (
                8,
                lines(
                    "Which part of a request takes k6's time?",
                    Says(
                        "95th percentile of each part, the slowest route. " + FROM_THE_START,
                        good="waiting is nearly all of it",
                        bad="blocked or connecting: connections are not kept, or the accept "
                        "queue is full",
                        then="Nodes (somaxconn), and Lanes, *Where do new connections go?*",
                    ),
                    "s",
                    *(
                        over_time(f"max(k6_http_req_{part}_p95{{{K6}}})", part)
                        for part in (
                            "blocked",
                            "connecting",
                            "tls_handshaking",
                            "sending",
                            "waiting",
                            "receiving",
                        )
                    ),
                    limits=Above(0.25),
                ),
            ),
            (
                8,
                lines(
                    "How do k6's durations scatter?",
                    Says(
                        "Quantiles of k6's durations, the slowest route. " + FROM_THE_START,
                        good="within a small factor of each other",
                        bad="a longest that is a hundred times the median: a stall, a retry or "
                        "a lost packet",
                        then="Lanes, at that time",
                    ),
                    "s",
                    over_time(f"max(k6_http_req_duration_p50{{{K6}}})", "p50"),
                    over_time(f"max(k6_http_req_duration_p95{{{K6}}})", "p95"),
                    over_time(f"max(k6_http_req_duration_p99{{{K6}}})", "p99"),
                    over_time(f"max(k6_http_req_duration_max{{{K6}}})", "longest"),
                    limits=Above(0.25),
                    logarithmic=True,
                ),
            ),
            (
                8,
                lines(
                    "How much data flows?",
                    Says(
                        "Bytes each second that k6 sent and got.",
                        good="what the scenario asks for; " + HARMLESS,
                        bad="close to what the network carries",
                        then="smaller replies, or a network that is wider",
                    ),
                    "Bps",
                    over_time(
                        f"sum(rate(k6_data_received_total{{{K6}}}[$__rate_interval]))", "got"
                    ),
                    over_time(f"sum(rate(k6_data_sent_total{{{K6}}}[$__rate_interval]))", "sent"),
                ),
            ),
        ),
    ),
)
