"""New versions and new configurations, under a constant load that must not see them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cluster import settings
from deploy import images
from support import REPOSITORY, becomes
from support.client import Client, RepeatingClient
from support.kubernetes import ROLL_OUT
from support.load import Load
from support.releases import Release

RELEASED = REPOSITORY / "tests" / "charts" / "released" / "corelane-0.2.0.tgz"


@contextmanager
def unnoticed(release: Release, replies: int = 400, **options: object) -> Iterator[Load]:
    """A load during which something happens; not one of its requests may fail."""
    with release.load(**options) as load:
        load.wait_for(replies, patience=ROLL_OUT)
        yield load
        # As many again, after the last pod has come or gone.
        load.wait_for(replies, patience=ROLL_OUT)
    assert not load.failures, load.failures[:10]


def restart_gateway(release: Release) -> None:
    """Replaces every pod of the gateway by one that is the same."""
    before = {pod.uid for pod in release.cluster.pods("gateway")}
    deployment = f"deployment/{release.name}-gateway"
    release.cluster.kubectl("rollout", "restart", deployment)
    release.cluster.kubectl("rollout", "status", deployment)
    after = release.cluster.wait_for_pods("gateway", 2)
    assert not before & {pod.uid for pod in after}


@pytest.fixture(scope="module")
def next_tag() -> str:
    """The server's image under a tag that no pod has run yet."""
    return images.load_as("server", "next")


@pytest.mark.usefixtures("round")
def test_a_new_image_of_the_server_and_the_way_back(release: Release, next_tag: str) -> None:
    good = release.revision
    before = release.cluster.pods("server")
    with unnoticed(release) as load:
        release.upgrade(f"service.image.tag={next_tag}")
        after = release.cluster.wait_for_pods("server", 2)
    assert not {pod.uid for pod in before} & {pod.uid for pod in after}
    assert all(pod.image.endswith(f":{next_tag}") for pod in after)
    assert set(load.replies) == {pod.name for pod in [*before, *after]}
    with unnoticed(release):
        release.rollback(good)
        back = release.cluster.wait_for_pods("server", 2)
    assert {pod.image for pod in back} == {pod.image for pod in before}


def test_an_upgrade_from_the_release_before(release: Release) -> None:
    """Its chart has other values; the pods have the same names and selectors."""
    places = {"service.image.tag=": "server.image.tag=", "gateway.image.tag=": "gateway.image.tag="}
    tags = [
        setting.replace(now, before)
        for setting in release.settings
        for now, before in places.items()
        if setting.startswith(now)
    ]
    former = replace(release, values=[RELEASED.with_suffix(".values.yaml")], settings=tags)
    former.upgrade("server.rollout.maxUnavailable=2", chart=RELEASED)
    before = {pod.uid for pod in release.cluster.wait_for_pods("server", 2)}
    release.wait_until_it_answers()
    with unnoticed(release):
        release.upgrade()
        after = release.cluster.wait_for_pods("server", 2)
    assert not before & {pod.uid for pod in after}


def test_a_new_configuration_of_the_server(release: Release) -> None:
    before = {pod.uid for pod in release.cluster.pods("server")}
    with unnoticed(release):
        release.upgrade("service.config.limits.queue=77")
        after = release.cluster.wait_for_pods("server", 2)
    assert not before & {pod.uid for pod in after}


def test_a_new_configuration_of_the_gateway_and_the_way_back(release: Release) -> None:
    good = release.revision
    before = {pod.uid for pod in release.cluster.pods("gateway")}
    with unnoticed(release):
        release.upgrade("gateway.listener.http2Streams=77")
        after = {pod.uid for pod in release.cluster.wait_for_pods("gateway", 2)}
    assert not before & after
    with unnoticed(release):
        release.rollback(good)
        assert not after & {pod.uid for pod in release.cluster.wait_for_pods("gateway", 2)}


def test_a_roll_out_of_the_gateway(release: Release, tmp_path: Path) -> None:
    ending = release.cluster.ready_pods("gateway")[0]
    with unnoticed(release), release.cluster.last_words(ending.name, tmp_path / "log"):
        restart_gateway(release)
    assert '"drain: ended"' in (tmp_path / "log").read_text()


def test_clients_that_ask_rarely_see_an_idle_close_and_no_failure(release: Release) -> None:
    """A gateway that waits less long than they are silent closes their idle connections."""
    release.serve("gateway.shutdown.settle=2s", "gateway.shutdown.deadline=4s")
    # On emulated CPUs, the close often crosses with a request.
    connect = RepeatingClient if settings.kind() == "vm" else Client
    # Each client asks every 10 seconds.
    with unnoticed(release, replies=50, clients=50, rate=5.0, connect=connect) as load:
        restart_gateway(release)
    assert load.idle_closes > 0


def test_an_image_that_does_not_exist_harms_nobody(release: Release) -> None:
    """The other node has a CPU for the new replica, which never starts."""
    release.upgrade("service.replicas=1")
    (good,) = release.cluster.wait_for_pods("server", 1)
    surge = ("service.rollout.maxSurge=1", "service.rollout.maxUnavailable=0")

    def waits() -> set[str]:
        """What replicas wait for."""
        selector = "app.kubernetes.io/name=corelane-server"
        pods = release.cluster.items("pods", "--selector", selector)
        states = [
            each["state"] for pod in pods for each in pod["status"].get("containerStatuses", [])
        ]
        return {state["waiting"]["reason"] for state in states if "waiting" in state}

    with unnoticed(release):
        refused = release.upgrade(
            "service.replicas=1", "service.image.tag=none", *surge, check=False, patience=5.0
        )
        assert refused.returncode != 0
        becomes(waits, {"ErrImageNeverPull"})
    assert [pod.uid for pod in release.cluster.ready_pods("server")] == [good.uid]
