"""Nodes: do pinned lanes have their CPUs to themselves, and is each node as its profile wants it?"""

from grafana.board import Board
from grafana.changes import MARKS
from grafana.panels import (
    HARMLESS,
    Column,
    Limits,
    Never,
    Says,
    cells,
    lines,
    number,
    states,
)
from grafana.queries import POD, now, over_time, raised, rate, rows
from grafana.variables import COMMON, NODE

BOARD = Board(
    uid="corelane-nodes",
    title="Corelane / Nodes",
    description="Proof of pinning for each pod, the settings of each node, and who changed them.",
    variables=(*COMMON, NODE),
    start="now-6h",
    marks=MARKS,
)

AT = 'node=~"$node"'
INTERRUPTS = "interrupts-elsewhere"

BOARD.row(
    3,
    (
        3,
        number(
            "Is every node looked at?",
            Says(
                "Share of the agents that answer and have looked within 15 minutes.",
                "100%",
                "below: nothing here is known of those nodes",
                "dashboards/runbooks/node-tuner-down.md",
            ),
            "percentunit",
            now(
                f"(count(time() - corelane_node_last_pass_timestamp_seconds{{{AT}}} < 900) or vector(0))"
                f' / count(up{{job="node-tuning", {AT}}})'
            ),
            limits=Limits(1, 0.5, falling=True),
            empty="no node tuner",
            decimals=0,
        ),
    ),
    (
        3,
        number(
            "How many nodes are not prepared?",
            Says(
                "Nodes on which a setting differs from the profile or was refused.",
                "0 in mode apply; in mode audit any number, for nobody prepares them",
                "above 0 in mode apply",
                "*Which settings are not as wanted?*",
            ),
            "none",
            now(f"count(corelane_node_prepared{{{AT}}} == 0) or vector(0)"),
            limits=Never(),
        ),
    ),
    (
        3,
        number(
            "How many settings differ?",
            Says(
                "Settings that are not what the profile wants.",
                "0 in mode apply",
                "above 0 in mode apply",
                "*Which settings are not as wanted?*",
            ),
            "none",
            now(f'sum(corelane_node_knob_settings{{{AT}, state="differs"}}) or vector(0)'),
            limits=Limits(1, 1e9),
        ),
    ),
    (
        3,
        number(
            "How many are refused?",
            Says(
                "Settings that the kernel would not take.",
                "0",
                "any: the profile does not fit this kernel or machine",
                "dashboards/runbooks/node-not-prepared.md",
            ),
            "none",
            now(f'sum(corelane_node_knob_settings{{{AT}, state="failed"}}) or vector(0)'),
            limits=Never(),
        ),
    ),
    (
        3,
        number(
            "Did somebody change settings?",
            Says(
                "Settings that somebody else has changed within six hours.",
                "0",
                "any: two masters of one node",
                "dashboards/runbooks/node-drift.md",
            ),
            "none",
            now(f"sum(increase(corelane_node_knob_drift_total{{{AT}}}[6h])) or vector(0)"),
            limits=Never(),
            decimals=0,
        ),
    ),
    (
        3,
        number(
            "How many pods are not proven?",
            Says(
                "Pods of Corelane for which a check of their pinning failed, or could not be made.",
                "0",
                "any: its lanes share their CPUs, are throttled, or nobody knows",
                "*Which proofs fail?*",
            ),
            "none",
            now(f"sum(corelane_node_pods{{{AT}}} - corelane_node_pods_proven{{{AT}}})"),
            limits=Never(),
            empty="no node tuner",
        ),
    ),
    (
        3,
        number(
            "Is a pinned pod throttled?",
            Says(
                "Share of the periods of the CFS quota in which a server was throttled, within five minutes; the "
                "worst server.",
                "0, or no quota at all",
                "any where lanes are pinned: a quota stops a lane in mid-request",
                "docs/node-tuning.md: whole CPUs and Kubernetes 1.33, or no CPU limit",
            ),
            "percentunit",
            now(
                f"max(rate(corelane_cpu_throttled_periods_total{{{POD}}}[5m])"
                f" / (rate(corelane_cpu_periods_total{{{POD}}}[5m]) > 0))"
            ),
            limits=Limits(0.001, 0.01),
            empty="no quota",
            decimals=1,
        ),
    ),
    (
        3,
        number(
            "Do agents fail?",
            Says(
                "Looks within an hour that changed nothing, or restored not all, because of an error.",
                "0",
                "any for longer",
                "dashboards/runbooks/node-pass-failed.md",
            ),
            "none",
            now(f"sum(increase(corelane_node_failed_passes_total{{{AT}}}[1h])) or vector(0)"),
            limits=Never(),
            decimals=0,
        ),
    ),
)

BOARD.row(
    9,
    (
        12,
        cells(
            "Which proofs fail?",
            Says(
                "Each check of each container, the failed ones first. `unknown` could not be read; of "
                "cpus-exclusive and no-cfs-quota that is as bad as failed.",
                "ok and not-applicable only",
                "failed: the pod has not what it was promised",
                "dashboards/runbooks/pod-not-pinned.md, by check",
            ),
            (
                Column("node", "Node"),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("container", "Container"),
                Column("check", "Check"),
                Column(
                    "Value",
                    "State",
                    values={
                        "3": ("failed", "red"),
                        "2": ("unknown", "orange"),
                        "1": ("ok", "green"),
                        "0": ("not applicable", "transparent"),
                    },
                ),
            ),
            rows(
                f"""
                max by (node, namespace, pod, container, check) (
                  3 * corelane_node_pod_check{{{AT}, state="failed"}}
                    or 2 * corelane_node_pod_check{{{AT}, state="unknown"}}
                    or corelane_node_pod_check{{{AT}, state="ok"}}
                    or 0 * corelane_node_pod_check{{{AT}, state="not-applicable"}}
                )
                """
            ),
            sort="State",
            empty="no pods, or no node tuner",
        ),
    ),
    (
        12,
        cells(
            "Which settings are not as wanted?",
            Says(
                "Knobs with settings that differ from the profile or were refused, with the value that is there and "
                "the one wanted, for those that are one number.",
                "an empty table",
                "differs in mode apply: somebody writes it back; failed: the kernel refuses it",
                "`node-tuner plan` on the node shows the difference; docs/node-tuning.md",
            ),
            (
                Column("node", "Node"),
                Column("knob", "Knob"),
                Column("class", "Class"),
                Column(
                    "state",
                    "State",
                    values={"failed": ("failed", "red"), "differs": ("differs", "orange")},
                ),
                Column("Value #A", "Settings"),
                Column("Value #B", "Is"),
                Column("Value #C", "Wanted"),
            ),
            rows(
                "max by (node, knob, class, state)"
                f' (corelane_node_knob_settings{{{AT}, state=~"differs|failed"}}) > 0'
            ),
            rows(
                f"max by (node, knob) (corelane_node_knob_actual{{{AT}}})"
                f' and on (node, knob) (corelane_node_knob_settings{{{AT}, state=~"differs|failed"}} > 0)'
            ),
            rows(
                f"max by (node, knob) (corelane_node_knob_wanted{{{AT}}})"
                f' and on (node, knob) (corelane_node_knob_settings{{{AT}, state=~"differs|failed"}} > 0)'
            ),
            sort="State",
            empty="every setting is as wanted",
        ),
    ),
)

BOARD.row(
    7,
    (
        8,
        states(
            "Since when is a node not prepared?",
            Says(
                "Each node over time.",
                "green; in mode audit red says only what apply would change",
                "red after green: a setting drifted",
                "the time tells who was at the node then",
            ),
            {"1": ("prepared", "green"), "0": ("not prepared", "red")},
            over_time(f"min by (node) (corelane_node_prepared{{{AT}}})", "{{node}}"),
            empty="no node tuner",
        ),
    ),
    (
        8,
        lines(
            "Who changes what?",
            Says(
                "Settings that somebody else changed, and that the agent wrote again, by knob, within an hour.",
                "0",
                "a repair each pass: another tool wants it otherwise, and they fight",
                "find the other tool, or take the knob out of the profile",
            ),
            "none",
            over_time(
                raised(
                    "knob", f"sum by (knob) (increase(corelane_node_knob_drift_total{{{AT}}}[1h]))"
                ),
                "{{knob}} changed",
            ),
            over_time(
                raised(
                    "knob",
                    f"sum by (knob) (increase(corelane_node_knob_repairs_total{{{AT}}}[1h]))",
                ),
                "{{knob}} written again",
            ),
            limits=Never(),
        ),
    ),
    (
        8,
        states(
            "Do interrupts keep away from lanes?",
            Says(
                "The check that no interrupt of a network device comes to the CPUs of each pod.",
                "ok, or not applicable: the pod has no CPUs of its own",
                "failed: packets of others are handled on a lane's CPU",
                "knob of interrupts with `housekeeping`; irqbalance must leave these CPUs alone",
            ),
            {
                "3": ("failed", "red"),
                "2": ("unknown", "yellow"),
                "1": ("ok", "green"),
                "0": ("not applicable", "gray"),
            },
            over_time(
                f"""
                max by (namespace, pod) (
                  3 * corelane_node_pod_check{{{AT}, check="{INTERRUPTS}", state="failed"}}
                    or 2 * corelane_node_pod_check{{{AT}, check="{INTERRUPTS}", state="unknown"}}
                    or corelane_node_pod_check{{{AT}, check="{INTERRUPTS}", state="ok"}}
                    or 0 * corelane_node_pod_check{{{AT}, check="{INTERRUPTS}", state="not-applicable"}}
                )
                """,
                "{{namespace}}/{{pod}}",
            ),
            empty="no pods, or no node tuner",
        ),
    ),
)

BOARD.folded(
    "CPUs of the servers",
    (
        7,
        (
            (
                8,
                lines(
                    "How long are servers throttled?",
                    Says(
                        "Time each second that the CFS quota kept a server from its CPU.",
                        "0; nothing where there is no quota",
                        "any where lanes are pinned",
                        "no CPU limit, or Kubernetes 1.33 with whole CPUs",
                    ),
                    "s",
                    over_time(
                        f"max by (pod) ({rate('corelane_cpu_throttled_seconds_total', POD)})",
                        "{{pod}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                8,
                lines(
                    "How much CPU do servers use?",
                    Says(
                        "CPUs that each server uses, all its threads.",
                        "at most its number of lanes",
                        "more: blocking code beside the lanes takes time from them",
                        "limits.blocking_threads; " + HARMLESS,
                    ),
                    "none",
                    over_time(
                        f"max by (pod) ({rate('process_cpu_seconds_total', POD)})", "{{pod}}"
                    ),
                ),
            ),
            (
                8,
                cells(
                    "Which CPUs may each server use?",
                    Says(
                        "By what says so: all that are online, the cgroup's cpuset, the affinity mask, the quota; "
                        + HARMLESS
                        + ".",
                        "cpuset and affinity are the same, and below online",
                        "cpuset equal to online: the pod shares all CPUs of its node",
                        "Guaranteed pods with whole CPUs and the kubelet's static policy",
                    ),
                    (
                        Column("pod", "Pod"),
                        Column("source", "By"),
                        Column("Value", "CPUs"),
                    ),
                    rows(f"max by (pod, source) (corelane_cpus{{{POD}}})"),
                    sort="Pod",
                ),
            ),
        ),
    ),
)

BOARD.folded(
    "The agents themselves",
    (
        7,
        (
            (
                6,
                lines(
                    "When did each agent last look?",
                    Says(
                        "Time since the last look.",
                        "below the interval, 5 minutes at most",
                        "above 15 minutes: it hangs",
                        "dashboards/runbooks/node-tuner-down.md",
                    ),
                    "s",
                    over_time(
                        f"time() - max by (node) (corelane_node_last_pass_timestamp_seconds{{{AT}}})",
                        "{{node}}",
                    ),
                    limits=Limits(300, 900),
                ),
            ),
            (
                6,
                lines(
                    "Does the API server answer agents?",
                    Says(
                        "Failures each second by what was asked.",
                        "0",
                        "for longer: no events, no taint, and the pods to prove are those of before",
                        "rights (RBAC) of the agent",
                    ),
                    "ops",
                    over_time(
                        "sum by (operation) (rate(corelane_node_api_errors_total"
                        f"{{{AT}}}[$__rate_interval]))",
                        "{{operation}}",
                    ),
                    limits=Never(),
                ),
            ),
            (
                6,
                lines(
                    "What would restore write back?",
                    Says(
                        "Settings in each node's journal.",
                        "as many as the profile changed; 0 in mode audit",
                        "above 0 in mode audit: an earlier apply was not restored",
                        "docs/node-tuning.md: restore and uninstall; " + HARMLESS,
                    ),
                    "none",
                    over_time(
                        f"max by (node) (corelane_node_journal_settings{{{AT}}})", "{{node}}"
                    ),
                ),
            ),
            (
                6,
                cells(
                    "What are agents told to do?",
                    Says(
                        "Mode, profile and version of each agent; " + HARMLESS + ".",
                        "the same on nodes of one kind",
                        "two versions for long: a roll-out that stopped at a node",
                        "`kubectl rollout status` of the DaemonSet",
                    ),
                    (
                        Column("node", "Node"),
                        Column("mode", "Mode"),
                        Column("profile", "Profile"),
                        Column("version", "Version"),
                    ),
                    rows(
                        f"max by (node, mode, profile, version) (corelane_node_tuner_info{{{AT}}})"
                    ),
                    sort="Node",
                ),
            ),
        ),
    ),
)
