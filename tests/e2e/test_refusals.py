"""Rejected pods, values and clients."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from stack.http import ask
from support.kubernetes import Ended
from support.releases import Release


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("service.cpus=1.5", "whole number"),
        ("server.replicas=3", "service.replicas"),
        ("service.lanes=3", "cpus"),
        ("service.confg.backlog=7", "confg"),
        ("service.config.lanes=3", "cpus"),
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
    """Both charts comply with the standard; a rejected pod shows that the namespace enforces it."""
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
    # One port answers unrelated pods, so a blocked network is ruled out.
    answered, refused = f"http://{gateway.ip}:8080/hello", f"http://{gateway.ip}:9901/ready"
    assert_strangers_get(release, [answered], but_not=[refused])
    with release.cluster.forwarded(gateway.name, 9901) as admin:
        assert ask(admin, "/ready").status == 200


def test_strangers_reach_the_replicas_through_the_gateway_alone(release: Release) -> None:
    (server, *_) = release.cluster.ready_pods("server")
    (gateway, *_) = release.cluster.ready_pods("gateway")
    own = [f"{server.ip}:8080/hello", f"{server.ip}:8081/metrics", f"{gateway.ip}:9902/ready"]
    assert_strangers_get(
        release,
        [f"http://{release.name}-gateway/hello"],
        but_not=[f"http://{address}" for address in own],
    )


def assert_strangers_get(release: Release, answered: list[str], *, but_not: list[str]) -> None:
    """Unrelated pods reach some URLs and cannot connect to other URLs.

    Runs concurrently, because checks mostly wait.
    """
    deadlines = dict.fromkeys(answered, "60s") | dict.fromkeys(but_not, "5s")

    def ended(url: str) -> Ended:
        """Retries until a response or the deadline."""
        return release.cluster.run(
            release.program, "/corelane", "check", url, "--deadline", deadlines[url]
        )

    with ThreadPoolExecutor() as pool:
        found = dict(zip(deadlines, pool.map(ended, deadlines), strict=True))
    for url in answered:
        assert found[url].succeeded, found[url].said
    for url in but_not:
        assert not found[url].succeeded, url
        said = found[url].said
        assert "cannot connect" in said or "last: no reply" in said, said


def test_the_stats_listener_shows_two_paths_and_takes_no_orders(release: Release) -> None:
    for pod in release.cluster.ready_pods("gateway"):
        with release.cluster.forwarded(pod.name, 9902) as stats:
            assert ask(stats, "/ready").status == 200
            assert b"envoy_http_downstream_rq_total" in ask(stats, "/stats/prometheus").body
            assert ask(stats, "/config_dump").status == 404
            assert ask(stats, "/quitquitquit", "POST").status == 404
