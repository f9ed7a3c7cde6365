"""Requests from outside of the cluster, through the gateway, to the replicas."""

import json
import os
import subprocess
import sys

from support import REPOSITORY
from support.client import Client, ask
from support.releases import Release


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
