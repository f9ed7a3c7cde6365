"""Builds the images of a release, and their SBOMs."""

from collections.abc import Sequence
from pathlib import Path

from images import build as image_build
from release import images, sbom
from tools import progress


def build(root: Path, folder: Path, architectures: Sequence[str] = images.ARCHITECTURES) -> None:
    """Builds every image for these architectures into `folder`, and an SBOM of each."""
    options = image_build.Options(arches=architectures, out=folder / "images")
    image_build.build(images.NAMES, options)
    for name in images.NAMES:
        for arch in architectures:
            with progress.step(f"{name}-{arch}", "writing its SBOM"):
                sbom.make(root, folder, name, arch)
