"""Image archives that `load` accepts, and the names that pods may use."""

from pathlib import Path

import pytest

from cluster import images
from images import archive, layer
from images.archive import Image
from tools.errors import ToolError

pytestmark = pytest.mark.fast


def test_an_archive_tells_name_and_digest(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    file = tmp_path / "image.tar"
    image = Image("corelane-server", "1.2.3", "amd64", created=0, entrypoint=("/program",))
    written = archive.write(image, [[layer.program("/program", program)]], file)
    (named,) = images.contents(file)
    assert named.name == "docker.io/library/corelane-server:1.2.3"
    assert named.pinned == f"docker.io/library/corelane-server@{written.digest}"


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"no image archive .*nothing\.tar: run make images"):
        images.contents(tmp_path / "nothing.tar")


def test_a_file_of_another_form_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "text.tar"
    file.write_text("no archive")
    with pytest.raises(ToolError, match=r"text\.tar is not an OCI archive"):
        images.contents(file)
