"""Nodes: do pinned lanes have their CPUs to themselves, and is each node configured as its profile says?"""

from grafana.board import Board
from grafana.panels import NONZERO, Column, Limits, cells, lines, number, states
from grafana.queries import CLUSTER, POD, raised, rate, sum_increase
from grafana.variables import NODE

BOARD = Board(
    uid="corelane-nodes",
    title="Corelane / Nodes",
    description="Pinning checks of each pod, kernel settings of each node, and changes by other programs.",
    variables=(NODE,),
    start="now-6h",
)

AT = f'{CLUSTER}, node=~"$node"'

APPLIED = f'on (node) corelane_node_tuner_info{{{AT}, mode="apply"}}'
"""Nodes that should be prepared; in audit mode, the agent only reports."""

NOT_AS_WANTED = f'corelane_node_knob_settings{{{AT}, state=~"differs|failed"}}'
THROTTLED = "corelane_cpu_throttled_periods_total"

CHECK_STATES = {
    "3": ("failed", "red"),
    "2": ("unknown", "orange"),
    "1": ("ok", "green"),
    "0": ("not applicable", "gray"),
}

PREPARED = f"""
  min by (node) (
    corelane_node_prepared{{{AT}}} == 1
      or (corelane_node_prepared{{{AT}}} == 0 and {APPLIED})
      or 2 + (corelane_node_prepared{{{AT}}} == 0)
  )
"""


def checks(by: str, matchers: str = AT) -> str:
    state = {
        name: f'corelane_node_pod_check{{{matchers}, state="{name}"}}'
        for name in ("failed", "unknown", "ok", "not-applicable")
    }
    return (
        f"max by ({by}) (3 * {state['failed']} or 2 * {state['unknown']}"
        f" or {state['ok']} or 0 * {state['not-applicable']})"
    )


def of_unwanted(gauge: str) -> str:
    return f"max by (node, knob) ({gauge}{{{AT}}}) and on (node, knob) ({NOT_AS_WANTED} > 0)"


BOARD.row(
    3,
    number(
        "Nodes with a working agent",
        "Is every node checked? Share of agents that respond and finished a pass within 15 minutes. Below 100%, see "
        "dashboards/runbooks/nodes.md.",
        "percentunit",
        f"(count(time() - corelane_node_last_pass_timestamp_seconds{{{AT}}} < 900) or vector(0))"
        f' / count(up{{job="node-tuning", {AT}}})',
        limits=Limits(1, 0.5, falling=True),
        empty="no node tuner",
        decimals=0,
    ),
    number(
        "Unprepared nodes",
        "Are nodes ready for pinned lanes? Nodes in apply mode with a differing or failed setting. If the value is "
        "above 0 for longer than a rollout, see *Settings that differ*.",
        "none",
        f"sum(corelane_node_prepared{{{AT}}} == bool 0 and {APPLIED}) or vector(0)",
        limits=NONZERO,
    ),
    number(
        "Differing settings",
        "Does another program change settings? Number of settings that differ from the profile; *Settings that "
        "differ* lists them. In audit mode, the agent only reports these settings.",
        "none",
        f'sum(corelane_node_knob_settings{{{AT}, state="differs"}}) or vector(0)',
        limits=Limits(1, 1e9),
    ),
    number(
        "Failed settings",
        "Does the profile fit the kernel? Settings that the kernel rejects. Above 0, see "
        "dashboards/runbooks/nodes.md.",
        "none",
        f'sum(corelane_node_knob_settings{{{AT}, state="failed"}}) or vector(0)',
        limits=NONZERO,
    ),
    number(
        "Settings drift (6 h)",
        "Did another program change a setting? Changes by other programs within 6 hours. Above 0, see "
        "dashboards/runbooks/nodes.md.",
        "none",
        f"{sum_increase('corelane_node_knob_drift_total', AT, window='6h')} or vector(0)",
        limits=NONZERO,
        decimals=0,
    ),
    number(
        "Pods without proof",
        "Do pods have their guaranteed CPUs? Pods with a pinning check that failed or could not run: see *Pinning "
        "checks*.",
        "none",
        f"sum(corelane_node_pods{{{AT}}} - corelane_node_pods_proven{{{AT}}})",
        limits=NONZERO,
        empty="no node tuner",
    ),
    number(
        "CPU throttling",
        "Does a quota stop lanes? Share of CFS periods in which the worst replica was throttled, over 5 minutes. "
        "Pinned lanes need pods without a CPU limit, or Kubernetes 1.33 with whole CPUs.",
        "percentunit",
        f"max(rate({THROTTLED}{{{POD}}}[5m])"
        f" / clamp_min(rate(corelane_cpu_periods_total{{{POD}}}[5m]), 1e-9))",
        limits=Limits(0.001, 0.01),
        empty="no quota",
        decimals=1,
    ),
    number(
        "Failed agent passes (1 h)",
        "Are agents working? Passes within an hour that changed or restored nothing because of an error. Above 0, "
        "see dashboards/runbooks/nodes.md.",
        "none",
        f"{sum_increase('corelane_node_failed_passes_total', AT, window='1h')} or vector(0)",
        limits=NONZERO,
        decimals=0,
    ),
)

BOARD.row(
    9,
    cells(
        "Pinning checks",
        "Which check fails? Checks of each container, failed checks first. Unknown means that the agent could not "
        "read the value. For cpus-exclusive and no-cfs-quota, treat unknown as failed. dashboards/runbooks/nodes.md "
        "explains each check.",
        (
            Column("node", "Node"),
            Column("namespace", "Namespace"),
            Column("pod", "Pod"),
            Column("container", "Container"),
            Column("check", "Check"),
            Column("Value", "State", values=CHECK_STATES),
        ),
        checks("node, namespace, pod, container, check"),
        sort="State",
        empty="no pods, or no node tuner",
    ),
    cells(
        "Settings that differ",
        "Which settings do not match the profile? Differing or failed settings, with their current and desired value "
        "if it is a single number. `node-tuner plan` on the node shows the difference: see docs/node-tuning.md.",
        (
            Column("node", "Node"),
            Column("knob", "Setting"),
            Column("class", "Class"),
            Column(
                "state",
                "State",
                values={"failed": ("failed", "red"), "differs": ("differs", "orange")},
            ),
            Column("Value #A", "Count"),
            Column("Value #B", "Present"),
            Column("Value #C", "Wanted"),
        ),
        f"max by (node, knob, class, state) ({NOT_AS_WANTED}) > 0",
        of_unwanted("corelane_node_knob_actual"),
        of_unwanted("corelane_node_knob_wanted"),
        sort="State",
        empty="all settings match the profile",
    ),
)

BOARD.row(
    7,
    states(
        "Node state",
        "How long has a node been unprepared? Red after green means that a setting drifted. Yellow means audit mode, "
        "in which the agent changes nothing.",
        {
            "1": ("prepared", "green"),
            "0": ("not prepared", "red"),
            "2": ("audit: apply would change it", "yellow"),
        },
        {"{{node}}": PREPARED},
        empty="no node tuner",
    ),
    lines(
        "Drift and repairs by setting (1 h)",
        "What do other programs change? Changes by other programs, and repairs by the agent. A repair on every pass "
        "means that another tool wants a different value: stop the tool or remove the setting from the profile.",
        "none",
        {
            "{{knob}} changed": raised(
                "knob", sum_increase("corelane_node_knob_drift_total", AT, "knob", "1h")
            ),
            "{{knob}} repaired": raised(
                "knob", sum_increase("corelane_node_knob_repairs_total", AT, "knob", "1h")
            ),
        },
        limits=NONZERO,
    ),
    states(
        "Interrupts on lane CPUs",
        "Do network interrupts stay away from lanes? Result of the interrupts-elsewhere check for each pod. If the "
        "check fails, use the setting for interrupts with housekeeping CPUs, and make sure that irqbalance ignores "
        "the lanes' CPUs.",
        CHECK_STATES,
        {"{{namespace}}/{{pod}}": checks("namespace, pod", AT + ', check="interrupts-elsewhere"')},
        empty="no pods, or no node tuner",
    ),
)

BOARD.folded("CPUs of the replicas")
BOARD.row(
    7,
    lines(
        "Throttled time by pod",
        "How long does a quota stop a replica? Throttled seconds per second. Pinned lanes need pods without a CPU "
        "limit, or Kubernetes 1.33 with whole CPUs.",
        "s",
        {"{{pod}}": f"max by (pod) ({rate('corelane_cpu_throttled_seconds_total', POD)})"},
        limits=NONZERO,
    ),
    lines(
        "CPU usage by pod",
        "Do other threads compete with lanes? CPUs in use. If the value exceeds the number of lanes, blocking code "
        "uses CPU time of the lanes: see limits.blocking_threads.",
        "none",
        {"{{pod}}": f"max by (pod) ({rate('process_cpu_seconds_total', POD)})"},
        ranked=True,
    ),
    cells(
        "CPUs by source",
        "Which CPUs may a replica use? CPUs according to online CPUs, cpuset, affinity and quota. If the cpuset "
        "equals the online CPUs, the pod shares all CPUs: use Guaranteed pods with whole CPUs and the static policy.",
        (Column("pod", "Pod"), Column("source", "Source"), Column("Value", "CPUs")),
        f"max by (pod, source) (corelane_cpus{{{POD}}})",
        sort="Pod",
        falling=False,
    ),
)

BOARD.folded("Memory, restarts and OOM kills of the replicas")
BOARD.row(
    7,
    lines(
        "Memory used of the limit",
        "Will the kernel kill a replica? Resident memory as a share of the pod's limit. Above 90% for 5 minutes, "
        "CorelaneMemoryHigh fires: see dashboards/runbooks/server.md.",
        "percentunit",
        {
            "{{pod}}": f"max by (pod) (process_resident_memory_bytes{{{POD}}}"
            f" / on (namespace, service, pod, instance) corelane_memory_limit_bytes{{{POD}}})"
        },
        limits=Limits(0.8, 0.9),
        ranked=True,
    ),
    lines(
        "Restarts (1 h)",
        "Does a replica crash? Restarts of the replica's process within an hour. If restarts repeat outside a "
        "rollout, read the log of the previous container with `kubectl logs --previous`.",
        "none",
        {"{{pod}}": f"max by (pod) (changes(process_start_time_seconds{{{POD}}}[1h]))"},
        limits=Limits(1, 3),
    ),
    lines(
        "OOM kills",
        "Was a replica killed because of its memory? Containers whose last termination was OOMKilled, according to "
        "kube-state-metrics; without it, the panel is empty. Above 0, see *Memory used of the limit*.",
        "none",
        {
            "{{pod}}": "sum by (pod) (kube_pod_container_status_last_terminated_reason"
            f'{{{CLUSTER}, namespace="$namespace", pod=~"$pod", reason="OOMKilled"}}'
            f" and on (namespace, pod) corelane_build_info{{{POD}}})"
        },
        limits=NONZERO,
    ),
)

BOARD.folded("Node tuner agents")
BOARD.row(
    7,
    lines(
        "Time since last pass",
        "Does an agent hang? A pass is due every interval, at most every 5 minutes. Above 15 minutes, see "
        "dashboards/runbooks/nodes.md.",
        "s",
        {"{{node}}": f"time() - max by (node) (corelane_node_last_pass_timestamp_seconds{{{AT}}})"},
        limits=Limits(300, 900),
    ),
    lines(
        "API server errors",
        "Can agents use the API server? Failures per second by operation. Failures cause missing events and taints "
        "and an outdated pod list: check the RBAC permissions.",
        "ops",
        {
            "{{operation}}": f"sum by (operation) ({rate('corelane_node_api_errors_total', AT)})",
        },
        limits=NONZERO,
    ),
    lines(
        "Settings in the journal",
        "What would restore write back? Settings that the profile changed. Above 0 in audit mode, an earlier apply "
        "was not restored: see docs/node-tuning.md.",
        "none",
        {"{{node}}": f"max by (node) (corelane_node_journal_settings{{{AT}}})"},
    ),
    cells(
        "Agents",
        "What is each agent configured to do? If two versions remain for a long time, the rollout of the DaemonSet "
        "is stuck.",
        (
            Column("node", "Node"),
            Column("mode", "Mode"),
            Column("profile", "Profile"),
            Column("version", "Version"),
        ),
        f"max by (node, mode, profile, version) (corelane_node_tuner_info{{{AT}}})",
        sort="Node",
        falling=False,
    ),
)
