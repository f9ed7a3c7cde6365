"""Contents of a release: images of its commit for all architectures, and provenance."""

import subprocess
from pathlib import Path

import pytest

from images import archive, layer
from release import images, provenance
from stack import REPOSITORY
from tools.errors import ToolError

pytestmark = pytest.mark.fast

COMMIT = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, text=True).strip()

WORKFLOW = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://forge.example",
    "GITHUB_REPOSITORY": "owner/corelane",
    "GITHUB_REPOSITORY_ID": "1",
    "GITHUB_REPOSITORY_OWNER_ID": "2",
    "GITHUB_WORKFLOW_REF": "owner/corelane/.github/workflows/release.yaml@refs/tags/v7.8.9",
    "GITHUB_REF": "refs/tags/v7.8.9",
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_RUN_ID": "3",
    "GITHUB_RUN_ATTEMPT": "4",
    "RUNNER_ENVIRONMENT": "github-hosted",
}


def test_a_workflow_names_itself_the_tag_and_the_commit() -> None:
    found = provenance.predicate(REPOSITORY, "7.8.9", WORKFLOW)
    definition, run = found["buildDefinition"], found["runDetails"]
    assert definition["externalParameters"] == {
        "version": "7.8.9",
        "workflow": {
            "ref": "refs/tags/v7.8.9",
            "repository": "https://forge.example/owner/corelane",
            "path": ".github/workflows/release.yaml",
        },
    }
    assert definition["resolvedDependencies"] == [
        {
            "uri": "git+https://forge.example/owner/corelane@refs/tags/v7.8.9",
            "digest": {"gitCommit": COMMIT},
        }
    ]
    workflow = ".github/workflows/release.yaml@refs/tags/v7.8.9"
    assert run["builder"]["id"] == f"https://forge.example/owner/corelane/{workflow}"
    assert run["metadata"]["invocationId"].endswith("/owner/corelane/actions/runs/3/attempts/4")


def test_a_local_build_names_no_workflow() -> None:
    found = provenance.predicate(REPOSITORY, "7.8.9", {})
    definition = found["buildDefinition"]
    assert found["runDetails"]["builder"]["id"] == provenance.LOCAL_BUILD
    assert definition["buildType"] == provenance.LOCAL_BUILD
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": COMMIT}
    assert isinstance(definition["internalParameters"]["changedFiles"], int)


BUILT = "c" * 40


def built(folder: Path, revision: str, arch: str = "arm64") -> str:
    """Writes an arm64 image with these properties; returns its digest."""
    labels = {images.REVISION: revision}
    image = archive.Image("corelane-server", "7.8.9", arch, 0, ("/x",), labels=labels)
    file = images.file(folder, "server", "arm64")
    return archive.write(image, [[layer.File("/x", b"x")]], file).digest


@pytest.mark.parametrize("revision", [BUILT, f"{BUILT}-dirty"])
def test_an_image_of_the_commit_is_accepted(tmp_path: Path, revision: str) -> None:
    digest = built(tmp_path, revision)
    assert images.read(tmp_path, "server", "arm64", BUILT).digest == digest


def test_an_image_of_another_commit_is_rejected(tmp_path: Path) -> None:
    built(tmp_path, "d" * 40)
    with pytest.raises(ToolError, match=f"is built from {'d' * 40}, not from {BUILT}"):
        images.read(tmp_path, "server", "arm64", BUILT)


def test_an_image_for_another_architecture_is_rejected(tmp_path: Path) -> None:
    built(tmp_path, BUILT, arch="amd64")
    with pytest.raises(ToolError, match="is for amd64, not for arm64"):
        images.read(tmp_path, "server", "arm64", BUILT)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    missing = images.file(tmp_path, "gateway", "amd64")
    with pytest.raises(ToolError, match=f"{missing} is missing"):
        images.read(tmp_path, "gateway", "amd64", BUILT)
