"""Builds, inspects (skopeo) and runs images."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from images import archive
from images.archive import Archive, Image
from images.layer import Entry
from tools import resolve

LABELS = {"org.opencontainers.image.title": "corelane-test"}


def image(arch: str = "amd64", **changes: object) -> Image:
    parts = {"name": "corelane-test", "tag": "1.2.3", "arch": arch, "created": 1_700_000_000}
    parts |= {"entrypoint": ("/program",), "ports": (8080,), "labels": LABELS}
    return Image(**{**parts, **changes})


def write(file: Path, *layers: list[Entry], arch: str = "amd64") -> Archive:
    return archive.write(image(arch), layers, file)


def inspect(file: Path, *arguments: str, arch: str = "amd64") -> dict:
    return json.loads(skopeo(arch, "inspect", *arguments, f"oci-archive:{file}"))


def skopeo(arch: str, *arguments: str) -> str:
    """Runs skopeo as if this machine had that architecture."""
    program = resolve.tool("skopeo")
    argv = [program, "--insecure-policy", "--override-arch", arch, *arguments]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def unpack(file: Path, folder: Path) -> None:
    folder.mkdir()
    for layer in archive.layers(file):
        layer.extractall(folder, filter="fully_trusted")


def run(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a chroot with the image's user and an empty environment."""
    return subprocess.run(
        [*_isolated(root), *argv], capture_output=True, text=True, env={}, check=False
    )


def _isolated(root: Path) -> list[str]:
    user, _, group = archive.USER.partition(":")
    if os.geteuid() == 0:
        return [shutil.which("chroot"), f"--userspec={archive.USER}", str(root)]
    unshare = [shutil.which("unshare"), f"--map-user={user}", f"--map-group={group}"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("only root may change the root folder here")
    return [*unshare, f"--root={root}"]
