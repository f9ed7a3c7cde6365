"""Which lane gets which connection."""

from grafana.lanes.shared import UNEVEN
from grafana.panels import HARMLESS, Limits, Says, lines
from grafana.queries import POD, over_time, rate

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "Where are the connections?",
                    Says(
                        "Open connections of each lane, parked ones included.",
                        good="alike with least-loaded; with hashed, few connections scatter by "
                        "chance",
                        bad="few connections on uneven lanes that are busy",
                        then="with a proxy in front of few pods choose placement least-loaded; "
                        + HARMLESS,
                    ),
                    "none",
                    over_time(
                        f"max by (pod, lane) (corelane_connections{{{POD}}})",
                        "{{pod}} lane {{lane}}",
                    ),
                    ranked=True,
                ),
            ),
            (
                8,
                lines(
                    "Where do new connections go?",
                    Says(
                        "Connections that each lane accepted each second.",
                        good="as even as the clients are many; " + HARMLESS,
                        bad="a rate as high as that of requests: clients do not keep their "
                        "connections",
                        then="see whether clients, or a proxy between, turn keep-alive off",
                    ),
                    "cps",
                    over_time(
                        f"sum by (pod, lane) ({rate('corelane_connections_accepted_total', POD)})",
                        "{{pod}} lane {{lane}}",
                    ),
                    ranked=True,
                ),
            ),
            (
                8,
                lines(
                    "How uneven is each pod?",
                    Says(
                        "The busiest lane over the mean of its pod, within five minutes.",
                        good="close to 1",
                        bad="above 1.6 while the pod is busy",
                        then="few long-lived connections: placement least-loaded",
                    ),
                    "none",
                    over_time(f"pod:corelane_lane_busy:imbalance_rate5m{{{POD}}}", "{{pod}}"),
                    limits=UNEVEN,
                    ranked=True,
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
                        "Connections that the acceptor handed to each lane, each second; with "
                        "placement "
                        "least-loaded only.",
                        good="even, or more to lanes with less work; " + HARMLESS,
                        bad="all to one lane",
                        then="see *How long does work wait on each lane?*: it goes by that",
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
                        "Connections that each lane took from the inbox of a busy one, each "
                        "second; with placement "
                        "least-loaded only.",
                        good="0 or little: the acceptor guessed right",
                        bad="as many as were placed: requests cost other than the load table says",
                        then="compare with the deviations in the load table; " + HARMLESS,
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
                        good="0",
                        bad="above 0 for longer: the lane does not even come to accept",
                        then="look for a stall",
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
