"""Replicas and nodes that go, under a constant load."""

import os
import signal

from support import eventually
from support.kubernetes import ROLL_OUT
from support.pinning import processes_of
from support.releases import Release


def test_a_server_that_is_killed(release: Release) -> None:
    victim = release.cluster.ready_pods("server")[0]
    (process,) = processes_of(victim.uid)
    with release.load() as load:
        load.wait_for(100, victim.name)
        os.kill(process.pid, signal.SIGKILL)
        # The same pod, with a new container.
        eventually(
            lambda: any(
                pod.uid == victim.uid and pod.restarts == victim.restarts + 1 and pod.ready
                for pod in release.cluster.pods("server")
            ),
            "the container's restart",
            patience=ROLL_OUT,
        )
        load.wait_for(100, victim.name, patience=ROLL_OUT)
    assert not load.failures, load.failures[:10]


def test_scaling_up_and_down(release: Release) -> None:
    release.upgrade("service.replicas=1")
    (first,) = release.cluster.wait_for_pods("server", 1)
    with release.load() as load:
        load.wait_for(100, first.name)
        release.upgrade("service.replicas=2")
        pods = release.cluster.wait_for_pods("server", 2)
        for pod in pods:
            load.wait_for(100, pod.name, patience=ROLL_OUT)
        release.upgrade("service.replicas=1")
        release.cluster.wait_for_pods("server", 1)
        load.wait_for(400)
    assert not load.failures, load.failures[:10]


def test_a_node_that_is_drained(release: Release) -> None:
    """The budget keeps one replica: its node cannot be drained as well."""
    cluster = release.cluster
    drained = cluster.ready_pods("server")[0].node
    with release.load() as load:
        load.wait_for(200)
        drain = ["drain", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout"]
        cluster.kubectl(*drain, f"{ROLL_OUT:.0f}s", drained)
        assert drained not in {pod.node for pod in cluster.pods("server")}
        assert drained not in {pod.node for pod in cluster.wait_for_pods("gateway", 2)}
        (last,) = {pod.node for pod in cluster.ready_pods("server")}
        # It asks for the eviction at once, and again every five seconds.
        refused = cluster.kubectl(*drain, "4s", last, check=False)
        assert refused.returncode != 0
        assert "disruption budget" in refused.stderr
        assert cluster.ready_pods("server")
        load.wait_for(200)
        cluster.kubectl("uncordon", drained, last)
        for pod in cluster.wait_for_pods("server", 2):
            load.wait_for(100, pod.name, patience=ROLL_OUT)
    assert not load.failures, load.failures[:10]
