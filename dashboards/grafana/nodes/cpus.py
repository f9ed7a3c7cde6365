"""The CPUs of the servers."""

from grafana.panels import HARMLESS, Column, Never, Says, cells, lines
from grafana.queries import POD, over_time, rate, rows

ROWS = (
    (
        7,
        (
            (
                8,
                lines(
                    "How long are servers throttled?",
                    Says(
                        "Time each second that the CFS quota kept a server from its CPU.",
                        good="0; nothing where there is no quota",
                        bad="any where lanes are pinned",
                        then="no CPU limit, or Kubernetes 1.33 with whole CPUs",
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
                        good="at most its number of lanes",
                        bad="more: blocking code beside the lanes takes time from them",
                        then="limits.blocking_threads; " + HARMLESS,
                    ),
                    "none",
                    over_time(
                        f"max by (pod) ({rate('process_cpu_seconds_total', POD)})", "{{pod}}"
                    ),
                    ranked=True,
                ),
            ),
            (
                8,
                cells(
                    "Which CPUs may each server use?",
                    Says(
                        "By what says so: all that are online, the cgroup's cpuset, the affinity "
                        "mask, the quota; " + HARMLESS + ".",
                        good="cpuset and affinity are the same, and below online",
                        bad="cpuset equal to online: the pod shares all CPUs of its node",
                        then="Guaranteed pods with whole CPUs and the kubelet's static policy",
                    ),
                    (
                        Column("pod", "Pod"),
                        Column("source", "By"),
                        Column("Value", "CPUs"),
                    ),
                    rows(f"max by (pod, source) (corelane_cpus{{{POD}}})"),
                    sort="Pod",
                    falling=False,
                ),
            ),
        ),
    ),
)
