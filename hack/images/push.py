"""Pushes images to a registry, with crane."""

import re
import tarfile
import tempfile
from collections.abc import Sequence

from images.archive import Archive
from tools import command, resolve

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def image(archive: Archive, repository: str) -> str:
    """Pushes an image without a tag; returns its reference by digest."""
    reference = f"{repository}@{archive.digest}"
    with tempfile.TemporaryDirectory() as layout:
        with tarfile.open(archive.file) as packed:
            packed.extractall(layout, filter="data")
        # Push a layout, because crane reads tar files in Docker's format, which would change the
        # digests.
        _crane("push", layout, reference)
    return reference


def index(references: Sequence[str], tagged: str) -> str:
    """Creates an index of pushed images in the registry; returns its digest."""
    manifests = [word for reference in references for word in ("--manifest", reference)]
    return DIGEST.search(_crane("index", "append", "--tag", tagged, *manifests))[0]


def tag(reference: str, tag: str) -> None:
    _crane("tag", reference, tag)


def _crane(*arguments: str) -> str:
    return command.output([resolve.tool("crane"), *arguments])
