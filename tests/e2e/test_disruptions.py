"""Requests from outside of the cluster, and replicas and nodes that go under a constant load."""

import json
import os
import subprocess
import sys

from support import REPOSITORY, eventually
from support.client import Client, ask
from support.kubernetes import ROLL_OUT
from support.pinning import processes_of
from support.releases import Release


def test_a_server_that_is_killed(release: Release) -> None:
    victim = release.cluster.ready_pods("server")[0]
    (process,) = processes_of(victim.uid)
    with release.load() as load:
        load.wait_for(100, victim.name)
        process.kill()
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


def test_requests_reach_every_replica(release: Release) -> None:
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
    """Every route of the service, each reply checked in full, by k6."""
    result = subprocess.run(
        [sys.executable, "loadtests", "smoke", "--rate", "100", "--duration", "10s"],
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


def test_a_replica_that_joins_is_found(release: Release) -> None:
    """The gateway takes it in; its own pods stay as they are."""
    gateways = {(pod.uid, pod.restarts) for pod in release.cluster.ready_pods("gateway")}
    release.upgrade("service.replicas=1")
    before = {pod.name for pod in release.cluster.wait_for_pods("server", 1)}
    release.upgrade()
    after = {pod.name for pod in release.cluster.wait_for_pods("server", 2)}
    assert before < after
    release.wait_until_it_answers()
    assert {(pod.uid, pod.restarts) for pod in release.cluster.ready_pods("gateway")} == gateways
