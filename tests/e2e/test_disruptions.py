"""Constant load from outside while replicas and nodes come and go."""

import json
import os
import subprocess
import sys

from stack import REPOSITORY, eventually
from stack.http import Client, ask
from support.kubernetes import ROLL_OUT
from support.pinning import processes_of
from support.releases import Release


def test_a_server_that_is_killed(release: Release) -> None:
    victim = release.cluster.ready_pods("server")[0]
    (process,) = processes_of(victim.uid)
    with release.load() as load:
        load.wait_for(100, victim.name)
        process.kill()
        # Same pod, new container.
        eventually(
            lambda: any(
                pod.uid == victim.uid and pod.restarts > victim.restarts and pod.ready
                for pod in release.cluster.pods("server")
            ),
            "the container's restart",
            patience=ROLL_OUT,
        )
        load.wait_for(100, victim.name, patience=ROLL_OUT)
    assert not load.failures, load.failures[:10]


def test_scaling_down_and_up(release: Release) -> None:
    """Gateway pods are not replaced; only their endpoints change."""
    cluster = release.cluster
    gateways = {(pod.uid, pod.restarts) for pod in cluster.ready_pods("gateway")}
    before = {pod.name for pod in cluster.ready_pods("server")}
    with release.load() as load:
        for name in before:
            load.wait_for(100, name)
        release.upgrade("service.replicas=1")
        (kept,) = cluster.wait_for_pods("server", 1)
        load.wait_for(200)
        release.serve()
        after = {pod.name for pod in cluster.ready_pods("server")}
        (joined,) = after - {kept.name}
        load.wait_for(100, joined)
    assert not load.failures, load.failures[:10]
    assert kept.name in before & after
    assert joined not in before
    assert {(pod.uid, pod.restarts) for pod in cluster.ready_pods("gateway")} == gateways


def test_a_node_that_is_drained(release: Release) -> None:
    """The disruption budget protects the last replica, so nodes are drained one after the other."""
    cluster = release.cluster
    drained = cluster.ready_pods("server")[0].node
    with release.load() as load:
        load.wait_for(200)
        drain = ["drain", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout"]
        cluster.kubectl(*drain, f"{ROLL_OUT:.0f}s", drained)
        assert drained not in {pod.node for pod in cluster.pods("server")}
        assert drained not in {pod.node for pod in cluster.wait_for_pods("gateway", 2)}
        (last,) = cluster.ready_pods("server")
        refused = cluster.evict(last.name)
        assert refused.returncode != 0
        assert "disruption budget" in refused.stderr
        assert [pod.uid for pod in cluster.ready_pods("server")] == [last.uid]
        load.wait_for(200)
        cluster.kubectl("uncordon", drained)
        for pod in cluster.wait_for_pods("server", 2):
            load.wait_for(100, pod.name, patience=ROLL_OUT)
    assert not load.failures, load.failures[:10]


def test_requests_reach_every_replica(release: Release) -> None:
    """Uses a single connection, because every gateway already knows all replicas."""
    wanted = {pod.name for pod in release.cluster.ready_pods("server")}
    assert len(wanted) == 2
    client = Client(release.gateway)
    seen = {client.ask("/hello").replica for _ in range(200)}
    client.close()
    assert seen == wanted


def test_a_reply_names_its_pod(release: Release) -> None:
    reply = ask(release.gateway, "/")
    assert reply.status == 200
    assert json.loads(reply.body)["replica"] == reply.replica


def test_errors_are_problem_documents(release: Release) -> None:
    for path, status in [("/none", 404), ("/div/four", 400)]:
        reply = ask(release.gateway, path)
        assert reply.status == status
        assert reply.headers["content-type"] == "application/problem+json"


def test_the_smoke_load_finds_no_fault(release: Release) -> None:
    """k6 requests each route and verifies all responses."""
    result = subprocess.run(
        [sys.executable, "loadtests", "smoke", "--rate", "100", "--duration", "3s"],
        cwd=REPOSITORY,
        env={**os.environ, "GATEWAY_URL": release.gateway, "REPLICAS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_helms_own_tests_pass(release: Release) -> None:
    said = release.helm("test", release.name, "--logs").stdout
    assert said.count("Phase:          Succeeded") == 3, said
