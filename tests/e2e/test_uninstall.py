"""What is left after an uninstallation: nothing."""

from support import eventually
from support.kubernetes import ROLL_OUT
from support.pinning import processes_of
from support.releases import Release

KEPT = {"kube-root-ca.crt", "default"}
"""What every namespace has: the cluster's certificate and the default service account."""


def leftovers(release: Release) -> list[str]:
    """Every object of the namespace that is not the cluster's own."""
    kinds = release.cluster.kubectl(
        "api-resources", "--namespaced", "--verbs=list", "--output=name"
    ).stdout.split()
    wanted = ",".join(kind for kind in kinds if not kind.startswith("events"))
    found = release.cluster.kubectl("get", wanted, "--output=name").stdout.split()
    return [name for name in found if name.split("/")[1] not in KEPT]


def test_uninstalling_leaves_nothing_behind(
    release: Release, monitoring_images: tuple[str, ...]
) -> None:
    release.upgrade("monitoring.enabled=true", strings=monitoring_images)
    uids = [pod["metadata"]["uid"] for pod in release.cluster.items("pods")]
    assert len(uids) == 6
    assert all(map(processes_of, uids))
    assert leftovers(release)
    release.helm("uninstall", release.name, "--wait")
    eventually(lambda: not leftovers(release), "an empty namespace", patience=ROLL_OUT)
    eventually(lambda: not any(map(processes_of, uids)), "the end of the pods", patience=ROLL_OUT)
    assert release.revision == 0
