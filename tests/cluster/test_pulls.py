"""`hack/deploy` names an image that cannot be pulled, long before Helm gives up."""

import pytest

from deploy import pulls
from tools.errors import ToolError

pytestmark = pytest.mark.fast


def pod(uid: str, reason: str) -> dict:
    """A pod whose container waits, as the API server describes it."""
    waiting = {"image": f"registry.example/{uid}:1", "state": {"waiting": {"reason": reason}}}
    return {"metadata": {"name": uid, "uid": uid}, "status": {"containerStatuses": [waiting]}}


def test_a_new_pod_without_its_image_ends_the_command_and_is_named() -> None:
    lists = iter([[pod("old", "ErrImagePull")], [pod("old", "ErrImagePull")]])
    now = [pod("old", "ErrImagePull"), pod("new", "ImagePullBackOff")]
    with pytest.raises(ToolError) as refused:
        pulls.watched(["sleep", "600"], {}, lambda: next(lists, now), 0.05, 0.01)
    assert "the image registry.example/new:1 of pod new cannot be pulled" in str(refused.value)
    assert "old" not in str(refused.value)


def test_a_pod_that_only_starts_ends_nothing() -> None:
    lists = iter([[]])
    starts = [pod("new", "ContainerCreating"), {"metadata": {"name": "x", "uid": "x"}}]
    argv = ["sh", "-c", "echo said"]
    assert pulls.watched(argv, {}, lambda: next(lists, starts), 0.0, 0.01) == "said\n"
    with pytest.raises(ToolError, match="sh -c failed: wrong"):
        pulls.watched(["sh", "-c", "echo wrong >&2; exit 3"], {}, list, 0.0, 0.01)
