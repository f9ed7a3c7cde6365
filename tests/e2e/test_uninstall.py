"""What is left after an uninstallation: nothing."""

from support import eventually
from support.kubernetes import ROLL_OUT
from support.pinning import processes_of
from support.releases import Release


def test_uninstalling_leaves_nothing_behind(
    release: Release, monitoring_images: tuple[str, ...]
) -> None:
    release.upgrade("monitoring.enabled=true", strings=monitoring_images)
    uids = [pod["metadata"]["uid"] for pod in release.cluster.items("pods")]
    assert len(uids) == 6
    assert all(map(processes_of, uids))
    assert release.cluster.leftovers()
    release.helm("uninstall", release.name, "--wait")
    eventually(lambda: not release.cluster.leftovers(), "an empty namespace", patience=ROLL_OUT)
    eventually(lambda: not any(map(processes_of, uids)), "the end of the pods", patience=ROLL_OUT)
    assert release.revision == 0
