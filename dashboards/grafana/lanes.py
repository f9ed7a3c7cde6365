"""Lanes: which core is the trouble, and what holds it?"""

from grafana.board import Board, link
from grafana.changes import MARKS
from grafana.panels import (
    HARMLESS,
    Above,
    Column,
    Limits,
    Never,
    Says,
    cells,
    heat_map,
    lines,
    number,
)
from grafana.queries import POD, buckets, now, over_time, quantile, raised, rate, rows
from grafana.variables import COMMON

BOARD = Board(
    uid="corelane-lanes",
    title="Corelane / Lanes",
    description="One line for each core: how busy it is, what waits for it, and which route holds it.",
    variables=COMMON,
    marks=MARKS,
)

BUSY = Limits(0.7, 0.9)
WAIT = Limits(0.01, 0.05)
SHED = POD + ', reason=~"queue_full|pool_full"'
UNEVEN = Limits(1.3, 1.6)
"""16 connections hashed over 4 lanes leave the hottest with 1.54 times the mean."""

BOARD.row(
    3,
    (
        3,
        number(
            "How busy is the busiest lane?",
            Says(
                "Share of the last minute that the event loop of the busiest lane was not waiting.",
                "below 70%",
                "above 90% its queue grows without bound",
                "see below whether the others of its pod are as busy",
            ),
            "percentunit",
            now(f"max(pod_lane:corelane_lane_busy:ratio_rate1m{{{POD}}})"),
            limits=BUSY,
            decimals=0,
        ),
    ),
    (
        3,
        number(
            "How uneven are the lanes?",
            Says(
                "The busiest lane of a pod over the mean of its lanes, within five minutes; the worst pod.",
                "close to 1; means little where lanes are nearly idle",
                "above 1.6: one lane is asked for more than the others can help with",
                "few long-lived connections: set placement to least-loaded; else see *Placement*",
            ),
            "none",
            now(f"max(pod:corelane_lane_busy:imbalance_rate5m{{{POD}}})"),
            limits=UNEVEN,
            empty="idle",
            decimals=2,
        ),
    ),
    (
        3,
        number(
            "How long would one wait now?",
            Says(
                "Time that the lane with the most work needs for what is queued and running, by its load table.",
                "below 10 ms",
                "above 50 ms; at timeouts.request new requests are answered 503",
                "see which route holds the lane, in the load table",
            ),
            "s",
            now(f"max(corelane_lane_expected_seconds{{{POD}}})"),
            limits=WAIT,
        ),
    ),
    (
        3,
        number(
            "How many wait?",
            Says(
                "Requests that wait for a slot or their turn, on all lanes.",
                "0, or a handful that changes all the time",
                "close to limits.queue on a lane: what comes then is answered 503",
                "Capacity says whether more servers would help; a stall would not go by them",
            ),
            "none",
            now(f"sum(corelane_requests_queued{{{POD}}})"),
            limits=Limits(100, 1000),
        ),
    ),
    (
        3,
        number(
            "Is a lane stalled?",
            Says(
                "Lanes that a handler holds for longer than timeouts.stall at this moment.",
                "0",
                "any: all requests of that lane wait for one handler",
                "*Stalls, panics and refusals* names the route; the log says how long it has taken",
            ),
            "none",
            now(f"sum(corelane_lane_stalled{{{POD}}})"),
            limits=Never(),
        ),
    ),
    (
        3,
        number(
            "Are requests shed?",
            Says(
                "Requests each second that were answered 503 because a queue was full or too long.",
                "0",
                "above 0: users see errors, and the gateway tries other pods",
                "all pods: Capacity; one pod: see its lanes below and its node in Nodes",
            ),
            "reqps",
            now(f"sum({rate('corelane_requests_refused_total', SHED)})"),
            limits=Never(),
        ),
    ),
    (
        3,
        number(
            "How many lanes are not pinned?",
            Says(
                "Lanes that may run on any CPU of their pod, because the CPUs are not the pod's alone.",
                "0 where pods have whole CPUs",
                "above 0 there: neighbours take time from the lane",
                "Nodes has the proof of pinning for each pod",
            ),
            "none",
            now(f'count(corelane_lane_info{{{POD}, pinned="false"}}) or vector(0)'),
            limits=Limits(1, 1e9),
        ),
    ),
    (
        3,
        number(
            "Do lanes get their CPU?",
            Says(
                "CPU time of the servers over the wall-clock time that their lanes were busy, within five minutes.",
                "around 100%; the admin thread and threads for blocking code come on top",
                "well below: lanes are robbed of their CPU by neighbours, the hypervisor or a quota",
                "Nodes: proof of pinning, and throttling",
            ),
            "percentunit",
            now(
                f"sum(rate(process_cpu_seconds_total{{{POD}}}[5m]))"
                f" / (sum(rate(corelane_lane_busy_seconds_total{{{POD}}}[5m])) > 0)"
            ),
            limits=Limits(0.9, 0.7, falling=True),
            empty="idle",
            decimals=0,
        ),
    ),
)

BOARD.row(
    7,
    (
        10,
        lines(
            "How busy is each lane?",
            Says(
                "Share of the time that each lane's event loop was not waiting.",
                "lines close together, below 70%",
                "one line far above the others: an uneven load; all at 100%: too few servers",
                "uneven: *Placement*; all: Capacity",
            ),
            "percentunit",
            over_time(
                f"pod_lane:corelane_lane_busy:ratio_rate1m{{{POD}}}", "{{pod}} lane {{lane}}"
            ),
            limits=BUSY,
            top=1,
        ),
    ),
    (
        7,
        lines(
            "How long does work wait on each lane?",
            Says(
                "Time that each lane needs for what is queued and running, by its load table.",
                "below 10 ms, and the lanes alike",
                "a line that climbs: more comes in than goes out",
                "the load table below says which route it is",
            ),
            "s",
            over_time(
                f"max by (pod, lane) (corelane_lane_expected_seconds{{{POD}}})",
                "{{pod}} lane {{lane}}",
            ),
            limits=WAIT,
        ),
    ),
    (
        7,
        lines(
            "How long did requests wait?",
            Says(
                "99th percentile of the phase *queue* of each lane, within five minutes.",
                "below 10 ms",
                "above 50 ms for minutes",
                "compare with *How busy is each lane?*: a wait on a lane that is not busy is a stall or dear requests",
            ),
            "s",
            over_time(
                f"pod_lane:corelane_request_phase_queue_seconds:p99_rate5m{{{POD}}}",
                "{{pod}} lane {{lane}}",
            ),
            limits=WAIT,
        ),
    ),
)

BOARD.row(
    9,
    (
        13,
        cells(
            "What does each lane do now?",
            Says(
                "One row for each lane: its CPU, how busy it is, and what it has.",
                "rows of a pod that are alike",
                "one row with more of everything, or *pinned* false where pods have whole CPUs",
                "a lane with many connections and little work is no trouble; one with work is",
            ),
            (
                Column("pod", "Pod", link=link("Nodes", "corelane-nodes")),
                Column("lane", "Lane"),
                Column("cpu", "CPU"),
                Column(
                    "pinned",
                    "Pinned",
                    values={"true": ("yes", "green"), "false": ("no", "orange")},
                ),
                Column("Value #A", "Busy", "percentunit", BUSY),
                Column("Value #B", "Expected work", "s", WAIT),
                Column("Value #C", "Queued"),
                Column("Value #D", "In flight"),
                Column("Value #E", "Connections"),
            ),
            rows(
                f"pod_lane:corelane_lane_busy:ratio_rate1m{{{POD}}}"
                + (
                    " * on (namespace, job, pod, lane) group_left (cpu, pinned)"
                    f" max by (namespace, job, pod, lane, cpu, pinned) (corelane_lane_info{{{POD}}})"
                )
            ),
            rows(f"max by (pod, lane) (corelane_lane_expected_seconds{{{POD}}})"),
            rows(f"max by (pod, lane) (corelane_requests_queued{{{POD}}})"),
            rows(f"max by (pod, lane) (corelane_requests_in_flight{{{POD}}})"),
            rows(f"max by (pod, lane) (corelane_connections{{{POD}}})"),
            sort="Busy",
        ),
    ),
    (
        11,
        cells(
            "Which requests hold the lanes?",
            Says(
                "The load table: how long a request of each route holds its lane, how that scatters, and how many "
                "were learnt from each second. Time × rate is what a route costs.",
                "the route with the highest cost is the one you expect",
                "a time that has grown since the last version, or a deviation as large as the time",
                "click a route: Service says in which phase the time goes",
            ),
            (
                Column(
                    "route",
                    "Route",
                    link=link(
                        "Service", "corelane-service", "var-route=${__value.text:percentencode}"
                    ),
                ),
                Column("method", "Method"),
                Column("Value #A", "Holds a lane", "s", Limits(0.01, 0.1)),
                Column("Value #B", "± deviation", "s"),
                Column("Value #C", "Rate", "reqps"),
                Column("Value #D", "Share of lane time", "percentunit"),
            ),
            rows(f"avg by (route, method) (corelane_load_table_lane_seconds{{{POD}}})"),
            rows(f"avg by (route, method) (corelane_load_table_lane_deviation_seconds{{{POD}}})"),
            rows(
                f"sum by (route, method) (rate(corelane_load_table_observations_total{{{POD}}}[5m]))"
            ),
            rows(
                f"""
                sum by (route, method) (
                  rate(corelane_load_table_observations_total{{{POD}}}[5m])
                    * corelane_load_table_lane_seconds{{{POD}}}
                )
                  / on () group_left () (
                    sum(
                      rate(corelane_load_table_observations_total{{{POD}}}[5m])
                        * corelane_load_table_lane_seconds{{{POD}}}
                    ) > 0
                  )
                """
            ),
            sort="Share of lane time",
        ),
    ),
)

BOARD.folded(
    "Placement: which lane gets which connection",
    (
        7,
        (
            (
                8,
                lines(
                    "Where are the connections?",
                    Says(
                        "Open connections of each lane.",
                        "alike with least-loaded; with hashed, few connections scatter by chance",
                        "few connections on uneven lanes that are busy",
                        "with a proxy in front of few pods choose placement least-loaded; "
                        + HARMLESS,
                    ),
                    "none",
                    over_time(
                        f"max by (pod, lane) (corelane_connections{{{POD}}})",
                        "{{pod}} lane {{lane}}",
                    ),
                ),
            ),
            (
                8,
                lines(
                    "Where do new connections go?",
                    Says(
                        "Connections that each lane accepted each second.",
                        "as even as the clients are many; " + HARMLESS,
                        "a rate as high as that of requests: clients do not keep their connections",
                        "see whether clients, or a proxy between, turn keep-alive off",
                    ),
                    "cps",
                    over_time(
                        f"sum by (pod, lane) ({rate('corelane_connections_accepted_total', POD)})",
                        "{{pod}} lane {{lane}}",
                    ),
                ),
            ),
            (
                8,
                lines(
                    "How uneven is each pod?",
                    Says(
                        "The busiest lane over the mean of its pod, within five minutes.",
                        "close to 1",
                        "above 1.6 while the pod is busy",
                        "few long-lived connections: placement least-loaded",
                    ),
                    "none",
                    over_time(f"pod:corelane_lane_busy:imbalance_rate5m{{{POD}}}", "{{pod}}"),
                    limits=UNEVEN,
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
                    "Where does the acceptor put them?",
                    Says(
                        "Connections that the acceptor handed to each lane, each second; with placement "
                        "least-loaded only.",
                        "even, or more to lanes with less work; " + HARMLESS,
                        "all to one lane",
                        "see *How long does work wait on each lane?*: it goes by that",
                    ),
                    "cps",
                    over_time(
                        f"sum by (pod, lane) ({rate('corelane_connections_placed_total', POD)})",
                        "{{pod}} lane {{lane}}",
                    ),
                ),
            ),
            (
                8,
                lines(
                    "What do idle lanes take over?",
                    Says(
                        "Connections that each lane took from the inbox of a busy one, each second; with placement "
                        "least-loaded only.",
                        "0 or little: the acceptor guessed right",
                        "as many as were placed: requests cost other than the load table says",
                        "compare with the deviations in the load table; " + HARMLESS,
                    ),
                    "cps",
                    over_time(
                        f"sum by (pod, lane) ({rate('corelane_connections_stolen_total', POD)})",
                        "{{pod}} lane {{lane}}",
                    ),
                ),
            ),
            (
                8,
                lines(
                    "How many connections wait for their lane?",
                    Says(
                        "Connections in the inbox of each lane; with placement least-loaded only.",
                        "0",
                        "above 0 for longer: the lane does not even come to accept",
                        "look for a stall",
                    ),
                    "none",
                    over_time(
                        f"max by (pod, lane) (corelane_connections_queued{{{POD}}})",
                        "{{pod}} lane {{lane}}",
                    ),
                    limits=Limits(10, 100),
                ),
            ),
        ),
    ),
)

BOARD.folded(
    "Phases: where a request's time goes",
    (
        7,
        (
            (
                8,
                lines(
                    "Which phase takes the time?",
                    Says(
                        "99th percentile of each phase: accept (to the header of a connection's first request), "
                        "queue, handler, write (until the socket took the last byte).",
                        "handler the longest of queue and handler",
                        "queue above handler: too few lanes; write long: slow clients or a full network",
                        "accept includes the client's own wait, and says little",
                    ),
                    "s",
                    over_time(
                        quantile(0.99, "phase, ", "corelane_request_phase_seconds", POD),
                        "{{phase}}",
                    ),
                    limits=Above(1),
                    logarithmic=True,
                ),
            ),
            (
                8,
                heat_map(
                    "How long do requests queue?",
                    Says(
                        "Waits for a slot: each row a bucket, the darker the more.",
                        "one band, at the bottom",
                        "a band that climbs",
                        "Capacity",
                    ),
                    "s",
                    buckets(
                        "sum by (le) ("
                        + rate("corelane_request_phase_seconds_bucket", POD + ', phase="queue"')
                        + ")"
                    ),
                ),
            ),
            (
                8,
                heat_map(
                    "How long do handlers take?",
                    Says(
                        "From the start of a handler to the head of its reply: each row a bucket.",
                        "as many bands as there are kinds of requests, and none moves",
                        "a band that climbs, or a new one",
                        "Service, by route; then the database there",
                    ),
                    "s",
                    buckets(
                        "sum by (le) ("
                        + rate("corelane_request_phase_seconds_bucket", POD + ', phase="handler"')
                        + ")"
                    ),
                ),
            ),
        ),
    ),
)

BOARD.folded(
    "Stalls, panics and refusals",
    (
        7,
        (
            (
                8,
                lines(
                    "Which route stalls a lane?",
                    Says(
                        "Times that a handler held its lane for longer than timeouts.stall, in the range of a rate.",
                        "0",
                        "any",
                        "code that blocks or computes for long belongs into corelane::blocking",
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
                        "Requests that were answered in place of their handler, each second, by reason.",
                        "0; `invalid`, `uri_too_long` and the like are the clients' own",
                        "queue_full, pool_full, request_timeout: the server could not",
                        "docs/admin.md lists the reasons with their settings",
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
                        "idle_timeout, age and requests only: they are no failure",
                        "limit or accept_error: nobody else gets in",
                        "docs/admin.md lists the reasons with their settings",
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
                        "Handlers and reply bodies that panicked, in the range of a rate. Each is one 500.",
                        "0",
                        "any: a bug",
                        "the log has the panic with its route",
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
                        "Times that a lane was pinned anew because its CPUs changed, in the range of a rate.",
                        "0",
                        "again and again: the kubelet rewrites the cpuset as pods come and go",
                        "give the pods whole CPUs (Guaranteed, integer requests)",
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
                        "no line, or one below drain.deadline for a roll-out",
                        "a line that reaches the deadline: requests were cut",
                        "the log of that pod names every five seconds what still hangs",
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
