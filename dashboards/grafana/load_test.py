"""Load test: measurements of k6, gateway and replicas."""

from grafana.board import Board
from grafana.panels import NONZERO, Above, Limits, lines, number
from grafana.queries import (
    GATEWAY,
    SERVICE,
    error_rate,
    gateway_error_rate,
    gateway_quantile,
    quantile,
    sum_rate,
    threshold,
)
from grafana.variables import TEST

BOARD = Board(
    uid="corelane-load-test",
    title="Corelane / Load test",
    description="Results of k6, gateway and replicas. k6 writes its series with "
    "--out experimental-prometheus-rw.",
    variables=(TEST,),
    start="now-15m",
)

K6 = 'testid=~"$testid"'
REQUESTS = sum_rate("k6_http_reqs_total", K6)
UNEXPECTED = sum_rate("k6_http_reqs_total", K6 + ', expected_response="false"')
FAILED = f"({UNEXPECTED} or vector(0)) / ({REQUESTS} > 0)"
"""k6_http_req_failed_rate counts from the start for each set of tags, so it cannot be aggregated.
"""

DROPPED = f"{sum_rate('k6_dropped_iterations_total', K6)} or vector(0)"

SINCE_START = "k6 computes quantiles over all requests since the start, so they change slowly."

PARTS = ("blocked", "connecting", "tls_handshaking", "sending", "waiting", "receiving")

BOARD.row(
    3,
    number(
        "Request rate (k6)",
        "Does k6 send the intended load? Requests per second. If the rate is below the scenario's rate, see *Dropped "
        "iterations*.",
        "reqps",
        REQUESTS,
        empty="no test",
    ),
    number(
        "Error rate (k6)",
        "Do requests fail for clients? Share of requests without a response or with an unexpected "
        "status. If the replicas show fewer errors, the rest failed in transit.",
        "percentunit",
        FAILED,
        limits=Limits(0.001, 0.01),
        empty="no test",
        decimals=2,
    ),
    number(
        "Checks passed",
        "Are the responses correct? Share of passed checks, for the worst check. Below 100%, k6's summary shows "
        "which check failed.",
        "percentunit",
        f"min(k6_checks_rate{{{K6}}})",
        limits=Limits(1, 0.99, falling=True),
        empty="no test",
        decimals=2,
    ),
    number(
        "Request latency p99 (k6)",
        "How slow is the platform for clients? 99th percentile of k6's slowest request name. If the latency is "
        "much higher than at the gateway, check the network and k6's machine. " + SINCE_START,
        "s",
        f"max(k6_http_req_duration_p99{{{K6}}})",
        limits=Limits(0.1, 0.25),
        empty="no test",
    ),
    number(
        "Dropped iterations",
        "Could k6 keep its rate? Iterations per second that k6 did not start because no virtual user was free. Above "
        "0, the test measures k6 and underestimates latency: add virtual users or run k6 on its own machine.",
        "ops",
        DROPPED,
        limits=NONZERO,
    ),
    number(
        "Utilisation of the busiest lane",
        "How busy are the replicas? Above 90%, the test measures the queue. Values up to 70% are normal unless the "
        "test searches for the limit.",
        "percentunit",
        f"max(pod_lane:corelane_lane_busy:ratio_rate1m{{{SERVICE}}})",
        limits=Limits(0.7, 0.9),
        decimals=0,
    ),
)

BOARD.row(
    9,
    lines(
        "Request rate: k6, gateway, replicas",
        "Do all requests arrive? If the gateway's rate is lower than k6's, requests are lost in transit. If the "
        "replicas' rate is higher than the gateway's, the gateway retries requests. If it is lower, the gateway "
        "itself sends some responses.",
        "reqps",
        {
            "k6": REQUESTS,
            "gateway": sum_rate("envoy_http_downstream_rq_completed", GATEWAY),
            "replicas": sum_rate("corelane_requests_total", SERVICE),
        },
    ),
    lines(
        "Request latency p99: k6, gateway, replicas",
        "Where is time lost? Find the two lines that diverge. Between k6 and the gateway, the network or k6 adds the "
        "time. Between the gateway and the replicas, see *Gateway*. " + SINCE_START,
        "s",
        {
            "k6, slowest name": f"max(k6_http_req_duration_p99{{{K6}}})",
            "gateway": gateway_quantile(0.99),
            "replicas": quantile(0.99, "corelane_request_duration_seconds", SERVICE),
            "objective": threshold(SERVICE),
        },
        red="objective",
        logarithmic=True,
    ),
)

BOARD.row(
    9,
    lines(
        "Error rate: k6, gateway, replicas",
        "Who causes errors? If k6 sees more errors than the gateway, connections broke. If the gateway sends more "
        "errors than the replicas, see *Request failures* in *Gateway*.",
        "percentunit",
        {"k6": FAILED, "gateway": gateway_error_rate(), "replicas": error_rate(SERVICE)},
        limits=Limits(0.001, 0.01),
    ),
    lines(
        "Request latency p99 by name (k6)",
        "Which request is slow? 99th percentile by k6's request name. *Service* shows the route. "
        + SINCE_START,
        "s",
        {"{{name}}": f"max by (name) (k6_http_req_duration_p99{{{K6}}})"},
        limits=Limits(0.1, 0.25),
        logarithmic=True,
        ranked=True,
    ),
    lines(
        "Virtual users",
        "Is k6 the limit? Virtual users in use, their maximum, and dropped iterations per second. When all virtual "
        "users are in use, requests start late: raise --max-vus.",
        "none",
        {
            "in use": f"sum(k6_vus{{{K6}}})",
            "at most": f"sum(k6_vus_max{{{K6}}})",
            "dropped iterations": DROPPED,
        },
        red="dropped iterations",
    ),
)

BOARD.folded("Request timing in k6")
BOARD.row(
    8,
    lines(
        "Request phases p95 (k6)",
        "Where does k6 spend its time? Slowest request name of each phase. Waiting should dominate. If blocked or "
        "connecting is high, connections are not kept alive or the accept queue is full (*Nodes*, somaxconn). "
        + SINCE_START,
        "s",
        {part: f"max(k6_http_req_{part}_p95{{{K6}}})" for part in PARTS},
        limits=Above(0.25),
    ),
    lines(
        "Request latency quantiles (k6)",
        "How wide is the distribution? Quantiles of the slowest request name. If the maximum is a hundred times the "
        "median, check *Lanes* at that time for a stall, a retry or a lost packet. " + SINCE_START,
        "s",
        {
            "p50": f"max(k6_http_req_duration_p50{{{K6}}})",
            "p95": f"max(k6_http_req_duration_p95{{{K6}}})",
            "p99": f"max(k6_http_req_duration_p99{{{K6}}})",
            "max": f"max(k6_http_req_duration_max{{{K6}}})",
        },
        limits=Above(0.25),
        logarithmic=True,
    ),
    lines(
        "Data rate (k6)",
        "Is the network the limit? Bytes per second that k6 sends and receives.",
        "Bps",
        {
            "received": sum_rate("k6_data_received_total", K6),
            "sent": sum_rate("k6_data_sent_total", K6),
        },
    ),
)
