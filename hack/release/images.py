"""Pushes the images of all architectures and their indexes."""

from pathlib import Path

from images import archive, push
from release.artefacts import IMAGE, INDEX, Artefact
from tools.errors import ToolError

NAMES = ("server", "gateway", "cli", "node-tuner")
ARCHITECTURES = ("amd64", "arm64")
REVISION = "org.opencontainers.image.revision"


def file(folder: Path, name: str, arch: str) -> Path:
    return folder / "images" / f"{name}-{arch}.tar"


def publish(registry: str, version: str, commit: str, folder: Path) -> list[Artefact]:
    """Pushes every image in `folder` by digest, and a tagged index for each name."""
    pushed: list[Artefact] = []
    for name in NAMES:
        repository = f"{registry}/corelane-{name}"
        built = {arch: read(folder, name, arch, commit) for arch in ARCHITECTURES}
        references = [push.image(each, repository) for each in built.values()]
        digest = push.index(references, f"{repository}:{version}")
        pushed.append(Artefact(INDEX, name, repository, digest, tag=version))
        for arch, each in built.items():
            pushed.append(Artefact(IMAGE, name, repository, each.digest, arch=arch))
    return pushed


def read(folder: Path, name: str, arch: str, commit: str) -> archive.Archive:
    """An earlier build of another commit may have left the archive."""
    place = file(folder, name, arch)
    if not place.exists():
        raise ToolError(f"{place} is missing: `python3 hack/release build` makes it")
    found = archive.read(place)
    revision = found.image.labels.get(REVISION, "no commit")
    if revision.removesuffix("-dirty") != commit:
        raise ToolError(f"{place} is built from {revision}, not from {commit}: build it again")
    if found.image.arch != arch:
        raise ToolError(f"{place} is for {found.image.arch}, not for {arch}")
    return found
