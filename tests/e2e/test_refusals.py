"""What the release does not let in: bad values, and whoever has no business there."""

import pytest

from support.client import ask
from support.kubernetes import Ended
from support.releases import Release


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("server.cpus=1.5", "whole number"),
        ("server.lanes=3", "lanes"),
        ("server.confg.backlog=7", "confg"),
        ("server.config.backlog=many", "backlog"),
        ("gateway.upstream.idleTimeout=90s", "idle"),
    ],
)
def test_a_bad_value_changes_nothing(release: Release, setting: str, words: str) -> None:
    revision, pods = release.revision, {pod.uid for pod in release.cluster.pods("server")}
    refused = release.upgrade(setting, check=False)
    assert refused.returncode != 0
    assert words in refused.stderr
    assert release.revision == revision
    assert {pod.uid for pod in release.cluster.ready_pods("server")} == pods


def test_the_namespace_takes_restricted_pods_only(release: Release) -> None:
    """Both charts run there, so they are; that it refuses others shows that it looks."""
    namespace = release.cluster.get("namespace", release.cluster.namespace)
    labels = namespace["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    image = release.cluster.ready_pods("server")[0].image
    refused = release.cluster.kubectl(
        "run", "privileged", f"--image={image}", "--privileged", check=False
    )
    assert refused.returncode != 0
    assert "violates PodSecurity" in refused.stderr


def test_only_the_agent_has_a_token(release: Release) -> None:
    for app, wanted in (("server", set()), ("gateway", {"agent"})):
        for found in release.cluster.items(
            "pods", "--selector", f"app.kubernetes.io/name=corelane-{app}"
        ):
            containers = found["spec"]["containers"] + found["spec"].get("initContainers", [])
            having = {
                each["name"]
                for each in containers
                if any("serviceaccount" in it["mountPath"] for it in each.get("volumeMounts", []))
            }
            assert having == wanted


def test_envoys_admin_interface_is_for_its_own_pod_alone(release: Release) -> None:
    (gateway, *_) = release.cluster.ready_pods("gateway")
    # The pod answers the stranger on one port, so the other's silence is not the network's.
    assert_stranger_gets(release, f"http://{gateway.ip}:8080/hello")
    assert_stranger_finds_nobody(release, f"http://{gateway.ip}:9901/ready")
    with release.cluster.forwarded(gateway.name, 9901) as admin:
        assert ask(admin, "/ready").status == 200


def test_strangers_reach_the_replicas_through_the_gateway_alone(release: Release) -> None:
    (server, *_) = release.cluster.ready_pods("server")
    assert_stranger_gets(release, f"http://{release.name}-gateway/hello")
    for port, path in ((8080, "/hello"), (8081, "/metrics")):
        assert_stranger_finds_nobody(release, f"http://{server.ip}:{port}{path}")
    (gateway, *_) = release.cluster.ready_pods("gateway")
    assert_stranger_finds_nobody(release, f"http://{gateway.ip}:9902/ready")


def assert_stranger_gets(release: Release, url: str) -> None:
    """A pod that is nothing to the release gets a 200."""
    ended = ask_as_stranger(release, url, "60s")
    assert ended.succeeded, ended.said


def assert_stranger_finds_nobody(release: Release, url: str) -> None:
    """It cannot even connect."""
    ended = ask_as_stranger(release, url, "5s")
    assert not ended.succeeded
    assert "cannot connect" in ended.said or "no answer" in ended.said, ended.said


def ask_as_stranger(release: Release, url: str, deadline: str) -> Ended:
    """Asks a URL from a pod of its own until it is answered, or until the deadline."""
    image = release.cluster.ready_pods("server")[0].image
    return release.cluster.run(image, "/corelane-check", url, "--deadline", deadline)


def test_the_stats_listener_shows_two_paths_and_takes_no_orders(release: Release) -> None:
    for pod in release.cluster.ready_pods("gateway"):
        with release.cluster.forwarded(pod.name, 9902) as stats:
            assert ask(stats, "/ready").status == 200
            assert b"envoy_http_downstream_rq_total" in ask(stats, "/stats/prometheus").body
            assert ask(stats, "/config_dump").status == 404
            assert ask(stats, "/quitquitquit", "POST").status == 404
