"""Pushes the images of all architectures and the indexes over them."""

import json
import tarfile
from pathlib import Path

from release import command
from release.artefacts import IMAGE, INDEX, Artefact, digest_in
from tools import resolve
from tools.errors import ToolError

NAMES = ("server", "gateway", "node-tuner", "prometheus", "alertmanager")
ARCHITECTURES = ("amd64", "arm64")
REVISION = "org.opencontainers.image.revision"


def archive(folder: Path, name: str, arch: str) -> Path:
    """The OCI archive that hack/images builds."""
    return folder / "images" / f"{name}-{arch}.tar"


def push(registry: str, version: str, commit: str, folder: Path) -> list[Artefact]:
    """Pushes every image of `folder` by its digest, and one tagged index for each name."""
    pushed: list[Artefact] = []
    for name in NAMES:
        for arch in ARCHITECTURES:
            check_commit(archive(folder, name, arch), commit)
        images = [_push(registry, name, arch, folder) for arch in ARCHITECTURES]
        pushed += [_index(images, version), *images]
    return pushed


def unpack(archive: Path, folder: Path) -> Path:
    """The OCI layout in an archive, as a folder."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def labels(archive: Path) -> dict[str, str]:
    """The labels of an image; its manifest repeats them as annotations."""
    if not archive.exists():
        raise ToolError(f"{archive} is not there: `python3 hack/release build` makes it")
    with tarfile.open(archive) as tar:
        (descriptor,) = json.load(tar.extractfile("index.json"))["manifests"]
        blob = f"blobs/{descriptor['digest'].replace(':', '/')}"
        return json.load(tar.extractfile(blob)).get("annotations", {})


def check_commit(archive: Path, commit: str) -> None:
    """Fails if the image is of another commit, such as one that an earlier build left."""
    revision = labels(archive).get(REVISION, "no commit")
    if revision.removesuffix("-dirty") != commit:
        raise ToolError(f"{archive} is of {revision}, but {commit} is released: build it again")


def _push(registry: str, name: str, arch: str, folder: Path) -> Artefact:
    layout = unpack(archive(folder, name, arch), folder / "layouts" / f"{name}-{arch}")
    (descriptor,) = json.loads((layout / "index.json").read_text())["manifests"]
    found = descriptor["platform"]["architecture"]
    if found != arch:
        raise ToolError(f"{archive(folder, name, arch)} is for {found}, not for {arch}")
    image = Artefact(
        kind=IMAGE,
        name=name,
        repository=f"{registry}/corelane-{name}",
        digest=descriptor["digest"],
        arch=arch,
    )
    # As a layout, not as an archive: crane takes an archive for Docker's, of other digests.
    command.output([_crane(), "push", layout, image.reference])
    return image


def _index(images: list[Artefact], version: str) -> Artefact:
    first = images[0]
    argv: list[str | Path] = [_crane(), "index", "append"]
    argv += ["--tag", f"{first.repository}:{version}"]
    for image in images:
        argv += ["--manifest", image.reference]
    digest = digest_in(command.output(argv), "crane index append")
    return Artefact(INDEX, first.name, first.repository, digest, tag=version)


def _crane() -> Path:
    return resolve.ensure(["crane"])["crane"]
