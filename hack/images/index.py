"""Joins the archives of one image for several architectures into one with an index over them."""

from collections.abc import Sequence
from pathlib import Path

from images import archive, read
from images.archive import INDEX, Archive


def join(archives: Sequence[Archive], file: Path) -> Archive:
    """Writes an archive of all these images, which are of one name and tag."""
    parts = [read.read(each.file) for each in archives]
    blob = archive.json_blob(
        {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [_without_names(part.descriptor) for part in parts],
            "annotations": archives[0].image.labels,
        }
    )
    blobs = {blob.digest: blob}
    for part in parts:
        blobs |= part.blobs
    archive.pack(file, archives[0].image, blob.descriptor(INDEX), blobs.values(), {})
    return Archive(file, archives[0].image, blob.digest)


def _without_names(descriptor: dict) -> dict:
    """The name belongs to the index, not to the images in it."""
    return {key: value for key, value in descriptor.items() if key != "annotations"}
