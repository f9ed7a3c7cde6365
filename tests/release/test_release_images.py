"""Images of a release: built from its commit, for every architecture."""

from pathlib import Path

import pytest

from images import archive, layer
from release import images
from tools.errors import ToolError

pytestmark = pytest.mark.fast

COMMIT = "c" * 40


def built(folder: Path, revision: str, arch: str = "arm64") -> str:
    """The digest of an image that the build for arm64 wrote, with these properties."""
    labels = {images.REVISION: revision}
    image = archive.Image("corelane-server", "7.8.9", arch, 0, ("/x",), labels=labels)
    file = images.file(folder, "server", "arm64")
    return archive.write(image, [[layer.File("/x", b"x")]], file).digest


@pytest.mark.parametrize("revision", [COMMIT, f"{COMMIT}-dirty"])
def test_an_image_of_the_commit_is_accepted(tmp_path: Path, revision: str) -> None:
    digest = built(tmp_path, revision)
    assert images.read(tmp_path, "server", "arm64", COMMIT).digest == digest


def test_an_image_of_another_commit_is_rejected(tmp_path: Path) -> None:
    built(tmp_path, "d" * 40)
    with pytest.raises(ToolError, match=f"is built from {'d' * 40}, not from {COMMIT}"):
        images.read(tmp_path, "server", "arm64", COMMIT)


def test_an_image_for_another_architecture_is_rejected(tmp_path: Path) -> None:
    built(tmp_path, COMMIT, arch="amd64")
    with pytest.raises(ToolError, match="is for amd64, not for arm64"):
        images.read(tmp_path, "server", "arm64", COMMIT)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    missing = images.file(tmp_path, "gateway", "amd64")
    with pytest.raises(ToolError, match=f"{missing} is missing"):
        images.read(tmp_path, "gateway", "amd64", COMMIT)
