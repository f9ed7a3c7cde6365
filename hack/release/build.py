"""Builds the images of a release, and writes what is in them."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from release import images, sbom
from tools import progress
from tools.errors import ToolError


def build(root: Path, folder: Path, architectures: Sequence[str] = images.ARCHITECTURES) -> None:
    """Builds every image for these architectures into `folder`, and an SBOM of each."""
    argv = [sys.executable, root / "hack" / "images", "build", *images.NAMES]
    argv += ["--arch", ",".join(architectures), "--out", folder / "images"]
    # Its output is for whoever watches: a build takes minutes.
    if subprocess.run(argv, check=False).returncode != 0:
        raise ToolError("hack/images could not build the images")
    for name in images.NAMES:
        for arch in architectures:
            with progress.step(f"{name}-{arch}", "writing its SBOM"):
                sbom.make(root, folder, name, arch)
