"""A custom builder for Skaffold: builds one image and pushes it.

Skaffold says what it wants in the environment, and asks the registry for the digest afterwards:
https://skaffold.dev/docs/builders/builder-types/custom/
"""

import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from images import build, definitions
from images.archive import Archive
from tools import resolve
from tools.errors import ToolError


def main(environment: Mapping[str, str]) -> None:
    """Builds and pushes the image of $IMAGE."""
    reference = environment.get("IMAGE", "")
    name, tag = parse(reference)
    if environment.get("PUSH_IMAGE") != "true":
        raise ToolError(
            "PUSH_IMAGE is not true: without a registry Skaffold looks for the image in a Docker "
            "engine, which this build does not need. Use `skaffold run --profile local`, or name a "
            "registry with --default-repo"
        )
    wanted = architectures(environment)
    with tempfile.TemporaryDirectory() as folder:
        built = build.build([name], tag=tag, arches=wanted, out=Path(folder))
        # What follows the images is an index over them, which the registry is to make itself.
        publish(built[: len(wanted) or 1], reference)


def publish(archives: Sequence[Archive], reference: str) -> None:
    """Pushes one image, or images for several architectures under one name."""
    if len(archives) == 1:
        _push(archives[0], reference)
        return
    repository = reference.rpartition(":")[0]
    argv = ["index", "append", "--tag", reference]
    for archive in archives:
        image = f"{repository}@{archive.digest}"
        _push(archive, image)
        argv += ["--manifest", image]
    _crane(*argv)


def parse(reference: str) -> tuple[str, str]:
    """The name that hack/images knows an image by, and the tag, of HOST:PORT/TEAM/IMAGE:TAG."""
    image, _, tag = reference.rpartition("/")[2].partition(":")
    for definition in definitions.DEFINITIONS.values():
        if definition.image == image and tag:
            return definition.name, tag
    known = ", ".join(definition.image for definition in definitions.DEFINITIONS.values())
    raise ToolError(f"IMAGE={reference}: give one of {known}, with a tag")


def architectures(environment: Mapping[str, str]) -> list[str]:
    """The architectures of $PLATFORMS, such as linux/amd64,linux/arm64; empty for this machine's."""
    wanted = []
    for platform in filter(None, environment.get("PLATFORMS", "").split(",")):
        system, _, arch = platform.strip().partition("/")
        if system != "linux" or not arch:
            raise ToolError(f"PLATFORMS has {platform}: there are images for linux only")
        wanted.append(arch)
    return wanted


def _push(archive: Archive, reference: str) -> None:
    with tempfile.TemporaryDirectory() as layout:
        with tarfile.open(archive.file) as packed:
            packed.extractall(layout, filter="data")
        # As a layout: crane takes an archive for Docker's.
        _crane("push", layout, reference)


def _crane(*arguments: str) -> None:
    argv = [resolve.ensure(["crane"])["crane"], *arguments]
    if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise ToolError(f"crane {arguments[0]} failed; it says why above")
