"""New versions and new configurations, under a constant load that must not see them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy import images
from support.load import Load
from support.releases import Release


@contextmanager
def unnoticed(release: Release, **options: object) -> Iterator[Load]:
    """A load during which something happens; not one of its requests may fail."""
    with release.load(**options) as load:
        load.wait_for(200)
        yield load
        # As many again, after the last pod has come or gone.
        load.wait_for(400)
    assert not load.failures, load.failures[:10]


@pytest.fixture(scope="module")
def next_tag() -> str:
    """The server's image under a tag that no pod has run yet."""
    return images.load_as("server", "next")


def test_a_new_image_of_the_server_and_the_way_back(release: Release, next_tag: str) -> None:
    good = release.revision
    before = release.cluster.pods("server")
    with unnoticed(release) as load:
        release.upgrade(f"server.image.tag={next_tag}")
        after = release.cluster.wait_for_pods("server", 2)
    assert not {pod.uid for pod in before} & {pod.uid for pod in after}
    assert all(pod.image.endswith(f":{next_tag}") for pod in after)
    assert set(load.replies) == {pod.name for pod in [*before, *after]}
    with unnoticed(release):
        release.rollback(good)
        back = release.cluster.wait_for_pods("server", 2)
    assert {pod.image for pod in back} == {pod.image for pod in before}


def test_a_new_configuration_of_the_server(release: Release) -> None:
    before = {pod.uid for pod in release.cluster.pods("server")}
    with unnoticed(release):
        release.upgrade("server.config.limits.queue=77")
        after = release.cluster.wait_for_pods("server", 2)
    assert not before & {pod.uid for pod in after}


def test_a_new_configuration_of_the_gateway(release: Release) -> None:
    before = {pod.uid for pod in release.cluster.pods("gateway")}
    with unnoticed(release):
        release.upgrade("gateway.listener.http2Streams=77")
        after = release.cluster.wait_for_pods("gateway", 2)
    assert not before & {pod.uid for pod in after}


def test_a_roll_out_of_the_gateway(release: Release) -> None:
    before = {pod.uid for pod in release.cluster.pods("gateway")}
    with unnoticed(release):
        release.cluster.kubectl("rollout", "restart", "deployment/corelane-gateway")
        release.cluster.kubectl("rollout", "status", "deployment/corelane-gateway")
        after = release.cluster.wait_for_pods("gateway", 2)
    assert not before & {pod.uid for pod in after}


def test_clients_that_ask_rarely_see_at_most_an_idle_close(release: Release) -> None:
    """Between two requests of a client the gateway that it is connected to may be gone."""
    with unnoticed(release, clients=60, rate=30.0) as load:
        release.cluster.kubectl("rollout", "restart", "deployment/corelane-gateway")
        release.cluster.kubectl("rollout", "status", "deployment/corelane-gateway")
        release.cluster.wait_for_pods("gateway", 2)
    assert load.total >= 600


def test_an_image_that_does_not_exist_harms_nobody(release: Release) -> None:
    with unnoticed(release):
        refused = release.upgrade(
            "server.image.tag=no-such-tag",
            "server.rollout.maxUnavailable=0",
            "server.rollout.maxSurge=1",
            check=False,
            patience=20.0,
        )
        assert refused.returncode != 0
    assert len(release.cluster.ready_pods("server")) == 2
