"""Pods have exclusive CPUs without throttling."""

import json
import os
from functools import partial

import pytest

from stack import becomes, eventually
from stack.http import ask
from support.kubernetes import ROLL_OUT, Cluster, Pod
from support.pinning import Process, parse_cpus, processes_of
from support.releases import Release


def only_process(pod: Pod) -> Process:
    """The serving process, not a gateway's agent."""
    (process,) = (each for each in processes_of(pod.uid) if each.name != "gateway-agent")
    return process


def wait_until_alone(cluster: Cluster, pod: Pod) -> None:
    """Waits until no other pod may use this pod's CPUs.

    The kubelet removes the other pods slightly after the assignment. If nodes share CPUs, only pods
    on the same node count.
    """
    cpus = only_process(pod).cpus
    capacity = [int(node["status"]["capacity"]["cpu"]) for node in cluster.items("nodes")]
    disjoint = sum(capacity) <= os.cpu_count()

    def alone() -> bool:
        others = (Pod.of(found) for found in cluster.items("pods", "--all-namespaces"))
        return not any(
            cpus & process.cpus
            for other in others
            if (disjoint or other.node == pod.node) and other.uid != pod.uid
            for process in processes_of(other.uid)
        )

    eventually(alone, f"{pod.name} alone on its CPUs {sorted(cpus)}", patience=ROLL_OUT)


def lanes_of(cluster: Cluster, pod: Pod) -> list[dict]:
    with cluster.forwarded(pod.name, 8081) as admin:
        return json.loads(ask(admin, "/lanes").body)["lanes"]


def priorities(cluster: Cluster, pod: Pod) -> set[str]:
    return {lane["slow"]["priority"] for lane in lanes_of(cluster, pod)}


def test_a_server_pod_has_cpus_that_no_other_pod_may_use(release: Release) -> None:
    for pod in release.cluster.ready_pods("server"):
        assert len(only_process(pod).cpus) == 1
        wait_until_alone(release.cluster, pod)


def test_each_lane_is_pinned_to_its_cpu_of_the_pod(release: Release) -> None:
    for pod in release.cluster.ready_pods("server"):
        process = only_process(pod)
        lanes = lanes_of(release.cluster, pod)
        assert all(lane["pinned"] for lane in lanes)
        assert {lane["cpu"] for lane in lanes} == process.cpus
        assert len(lanes) == len(process.cpus)
        # Pinned lanes have slow lanes. "restricted" permits lowering the priority, but no
        # scheduling policy that would also raise it.
        lowered = "nice" if process.nice else "idle"
        # Slow lanes lower their priority last.
        becomes(partial(priorities, release.cluster, pod), {lowered})


@pytest.mark.parametrize("app", ["server", "gateway"])
def test_no_cfs_quota_slows_a_pod(release: Release, app: str) -> None:
    for pod in release.cluster.ready_pods(app):
        assert only_process(pod).quotas == ["none", "none"]


def test_pods_with_cpus_of_their_own_are_guaranteed(release: Release) -> None:
    for found in release.cluster.items(
        "pods", "--selector", "app.kubernetes.io/name=corelane-server"
    ):
        assert found["status"]["qosClass"] == "Guaranteed"


# Replaces all pods twice. Chart tests cover the settings, and the kubelet treats all pods alike.
@pytest.mark.nightly
def test_a_gateway_pod_owns_its_cpu_too_where_it_is_told_to(release: Release) -> None:
    """One replica fewer makes room for a gateway and its agent."""
    first, second = sorted(
        release.cluster.items("nodes"), key=lambda node: len(node["status"]["allocatable"]["cpu"])
    )
    hostname = r"nodeSelector.kubernetes\.io/hostname"
    release.upgrade(
        "service.replicas=1",
        f"service.{hostname}={first['metadata']['name']}",
        "gateway.replicas=1",
        f"gateway.{hostname}={second['metadata']['name']}",
        "gateway.pinning=exclusive",
        "gateway.resources=null",
        "gateway.agent.resources=null",
    )
    release.cluster.wait_for_pods("server", 1)
    (gateway,) = release.cluster.wait_for_pods("gateway", 1)
    release.wait_until_it_answers()
    process = only_process(gateway)
    assert len(process.cpus) == 1
    assert process.quotas == ["none", "none"]
    wait_until_alone(release.cluster, gateway)
    # Envoy runs one worker per CPU, named wrk:worker_N.
    workers = [name for name in process.threads if name.startswith("wrk:worker")]
    assert len(workers) == len(process.cpus)

    def agent_elsewhere() -> bool:
        (agent,) = (each for each in processes_of(gateway.uid) if each.name == "gateway-agent")
        return not agent.cpus & process.cpus

    # The agent started before Envoy had its CPU.
    eventually(agent_elsewhere, "an agent on other CPUs", patience=ROLL_OUT)


def test_cpu_lists_are_read_as_the_kernel_writes_them() -> None:
    assert parse_cpus("0-1,4\n") == {0, 1, 4}
    assert parse_cpus("\n") == frozenset()
