"""A custom builder for Skaffold: builds one image and pushes it.

Skaffold says what it wants in the environment, and asks the registry for the digest afterwards:
https://skaffold.dev/docs/builders/builder-types/custom/
"""

import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from images import build, definitions
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
    with tempfile.TemporaryDirectory() as folder:
        built = build.build([name], tag=tag, arches=architectures(environment), out=Path(folder))
        layout = Path(folder) / "layout"
        # The last one: the index, where there are several architectures.
        with tarfile.open(built[-1].file) as archive:
            archive.extractall(layout, filter="data")
        _push(layout, reference, several=len(built) > 1)


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


def _push(layout: Path, reference: str, *, several: bool) -> None:
    crane = resolve.ensure(["crane"])["crane"]
    argv = [crane, "push", *(["--index"] if several else []), layout, reference]
    if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise ToolError(f"crane could not push {reference}; it says why above")
