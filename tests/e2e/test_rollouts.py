"""New versions and configurations under constant load, without failures."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from deploy import images
from stack import REPOSITORY, becomes, eventually
from stack.http import Client
from stack.load import Load
from support.kubernetes import ROLL_OUT, Cluster
from support.releases import Release

RELEASED = REPOSITORY / "tests" / "charts" / "released" / "corelane-0.2.0.tgz"

SILENT = 20


@contextmanager
def unnoticed(release: Release, replies: int = 400) -> Iterator[Load]:
    """Runs a load that must not see a single failure."""
    with release.load() as load:
        load.wait_for(replies, patience=ROLL_OUT)
        yield load
        # Wait for as many replies after the last pod change.
        load.wait_for(replies, patience=ROLL_OUT)
    assert not load.failures, load.failures[:10]


@contextmanager
def silent(release: Release) -> Iterator[None]:
    """Idle connections, which gateways close when they shut down; clients reconnect to the next
    gateway."""
    clients = [Client(release.gateway) for _ in range(SILENT)]
    for client in clients:
        assert client.ask("/hello").status == 200
    yield
    for client in clients:
        eventually(client.drop_if_closed, "the close of an idle connection")
        assert client.ask("/hello").status == 200
        client.close()


@contextmanager
def replaced(cluster: Cluster, *apps: str) -> Iterator[None]:
    """Asserts that exactly these apps' pods are replaced."""
    before = {app: {pod.uid for pod in cluster.pods(app)} for app in ("server", "gateway")}
    yield
    for app, uids in before.items():
        kept = uids & {pod.uid for pod in cluster.wait_for_pods(app, len(uids))}
        assert kept == (set() if app in apps else uids), app


@pytest.fixture(scope="module")
def next_tag() -> str:
    """A tag no pod has used."""
    return images.load_as("server", "next")


@pytest.mark.usefixtures("round")
def test_a_new_image_and_configuration_and_the_way_back(
    release: Release, next_tag: str, tmp_path: Path
) -> None:
    """The server image and the gateway configuration roll out at the same time."""
    good, cluster = release.revision, release.cluster
    before = cluster.pods("server")
    ending, log = cluster.pods("gateway")[0], tmp_path / "log"
    with unnoticed(release) as load, cluster.last_words(ending.name, log):
        # Start following before the pod can terminate.
        eventually(lambda: log.stat().st_size, "the log of a gateway")
        for pod in before:
            load.wait_for(1, pod.name)
        with silent(release), replaced(cluster, "server", "gateway"):
            release.upgrade(f"service.image.tag={next_tag}", "gateway.listener.http2Streams=77")
        after = cluster.pods("server")
        for pod in after:
            load.wait_for(1, pod.name)
    assert all(pod.image.endswith(f":{next_tag}") for pod in after)
    assert set(load.replies) == {pod.name for pod in [*before, *after]}
    assert '"drain: ended"' in log.read_text()
    with unnoticed(release), replaced(cluster, "server", "gateway"):
        release.rollback(good)
    assert {pod.image for pod in cluster.pods("server")} == {pod.image for pod in before}


# tests/charts shows that configuration changes replace pods; the rollout works like an image
# rollout.
@pytest.mark.nightly
def test_a_new_configuration_of_the_server(release: Release) -> None:
    with unnoticed(release), replaced(release.cluster, "server"):
        release.upgrade("service.config.limits.queue=77")


# A restart is like a configuration rollout.
@pytest.mark.nightly
def test_a_restart_of_the_gateway(release: Release) -> None:
    deployment = f"deployment/{release.name}-gateway"
    with unnoticed(release), replaced(release.cluster, "gateway"):
        release.cluster.kubectl("rollout", "restart", deployment)
        release.cluster.kubectl("rollout", "status", deployment)


def test_an_upgrade_from_the_release_before(deployed: Release) -> None:
    """The previous chart differs in values but not in names and selectors."""
    places = {"service.image.tag=": "server.image.tag=", "gateway.image.tag=": "gateway.image.tag="}
    tags = [
        setting.replace(now, before)
        for setting in deployed.settings
        for now, before in places.items()
        if setting.startswith(now)
    ]
    former = replace(deployed, values=[RELEASED.with_suffix(".values.yaml")], settings=tags)
    at_once = ("server.rollout.maxUnavailable=2", "gateway.rollout.maxUnavailable=2")
    # The current program replaces the released one, minus `steering`.
    former.upgrade(*at_once, "server.config.steering=null", chart=RELEASED)
    former.cluster.wait_for_pods("server", 2)
    former.cluster.wait_for_pods("gateway", 2)
    former.wait_until_it_answers()
    with unnoticed(deployed), replaced(deployed.cluster, "server", "gateway"):
        deployed.upgrade()
    deployed.installed()


def test_an_image_that_does_not_exist_harms_nobody(release: Release) -> None:
    """A free CPU exists on the other node, but the pod never starts."""
    release.upgrade("service.replicas=1")
    (good,) = release.cluster.wait_for_pods("server", 1)
    surge = ("service.rollout.maxSurge=1", "service.rollout.maxUnavailable=0")

    def waits() -> set[str]:
        selector = "app.kubernetes.io/name=corelane-server"
        pods = release.cluster.items("pods", "--selector", selector)
        states = [
            each["state"] for pod in pods for each in pod["status"].get("containerStatuses", [])
        ]
        return {state["waiting"]["reason"] for state in states if "waiting" in state}

    with unnoticed(release):
        # Helm applies everything first and then waits for the replica.
        refused = release.upgrade(
            "service.replicas=1", "service.image.tag=none", *surge, check=False, patience=3.0
        )
        assert refused.returncode != 0
        becomes(waits, {"ErrImageNeverPull"})
    assert [pod.uid for pod in release.cluster.ready_pods("server")] == [good.uid]
