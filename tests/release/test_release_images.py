"""Images of a release: built of its commit, for every architecture."""

from pathlib import Path

import pytest

from images import archive, layer
from release import images
from tools.errors import ToolError

COMMIT = "c" * 40


def built(folder: Path, revision: str) -> Path:
    """The archive of an image with that label."""
    file = images.archive(folder, "server", "arm64")
    image = archive.Image(
        "corelane-server", "7.8.9", "arm64", 0, ("/x",), labels={images.REVISION: revision}
    )
    archive.write(image, [[layer.File("/x", b"x")]], file)
    return file


def test_an_image_of_the_commit_is_taken(tmp_path: Path) -> None:
    images.check_commit(built(tmp_path, COMMIT), COMMIT)
    images.check_commit(built(tmp_path, f"{COMMIT}-dirty"), COMMIT)


def test_an_image_of_another_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=f"is of {'d' * 40}, but {COMMIT} is released"):
        images.check_commit(built(tmp_path, "d" * 40), COMMIT)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    missing = images.archive(tmp_path, "gateway", "amd64")
    with pytest.raises(ToolError, match=f"{missing} is not there"):
        images.check_commit(missing, COMMIT)


def test_an_archive_becomes_a_layout(tmp_path: Path) -> None:
    layout = images.unpack(built(tmp_path, COMMIT), tmp_path / "layout")
    assert {"oci-layout", "index.json", "blobs"} <= {entry.name for entry in layout.iterdir()}
