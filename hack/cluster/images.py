"""The images of pause and CoreDNS, and the import of images into the nodes."""

import json
import platform
import tarfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cluster import places
from cluster.components import COREDNS, PAUSE, NodeFiles
from cluster.plan import NODES
from cluster.programs import Programs
from cluster.records import Record
from cluster.settings import FOLDER
from images import archive, layer
from images.archive import NAME, Image
from tools import cache, command
from tools.errors import ToolError

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Named:
    name: str
    digest: str

    @property
    def pinned(self) -> str:
        """The image name pinned by digest."""
        return f"{self.name.rpartition(':')[0]}@{self.digest}"


def own(programs: Programs) -> list[Path]:
    """Archives of the two images that every cluster needs, created once."""
    return [
        of_program(PAUSE, "/pause", _pause()),
        of_program(COREDNS, "/coredns", programs["coredns"]),
    ]


def _folder() -> Path:
    folder = cache.root() / "cluster"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pause() -> Path:
    source = FOLDER / "pause"
    key = cache.key(*(file.read_bytes() for file in sorted(source.iterdir())))
    program = _folder() / f"pause-{key}"
    with cache.lock("pause"):
        if not program.exists():
            fresh = program.with_suffix(".new")
            argv = ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
            command.run(
                [*argv, "-o", str(fresh), "."],
                cache.log("pause"),
                failure="pause does not build",
                cwd=source,
                env={"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
            )
            fresh.replace(program)
    return program


def of_program(reference: str, path: str, program: Path) -> Path:
    """An image that contains only one program, created once."""
    name, _, tag = reference.partition(":")
    stat = program.stat()
    key = cache.key(reference, str(program), str(stat.st_mtime_ns), str(stat.st_size))
    file = _folder() / f"{name}-{key}.tar"
    with cache.lock(name):
        if not file.exists():
            arch = ARCHITECTURES[platform.machine()]
            image = Image(name, tag, arch, created=0, entrypoint=(path,))
            archive.write(image, [[layer.program(path, program)]], file)
    return file


def load(record: Record, programs: Programs, archives: Iterable[Path]) -> list[str]:
    found = {file: contents(file) for file in archives}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: _import(record, name, programs, found), NODES))
    images = [image for contents in found.values() for image in contents]
    return [reference for image in images for reference in (image.name, image.pinned)]


def _import(record: Record, name: str, programs: Programs, found: dict[Path, list[Named]]) -> None:
    # REF TYPE DIGEST SIZE PLATFORMS LABELS
    lines = [line.split() for line in _ctr(record, name, programs, "list").splitlines()]
    there = {words[0]: words[2] for words in lines}
    for file, images in found.items():
        if all(there.get(each) == i.digest for i in images for each in (i.name, i.pinned)):
            continue
        _ctr(record, name, programs, "import", places.path(record, file.resolve()))
        for image in images:
            _ctr(record, name, programs, "tag", "--force", image.name, image.pinned)


def _ctr(record: Record, name: str, programs: Programs, *arguments: object) -> str:
    socket = NodeFiles(record.file.parent / name).socket
    argv = [*places.inside(record, name), programs["ctr"], "--address", socket]
    argv += ["--namespace", "k8s.io", "images", *arguments]
    return command.output(argv, env=programs.environment())


def contents(file: Path) -> list[Named]:
    try:
        with tarfile.open(file) as tar:
            index = json.load(tar.extractfile("index.json"))
        manifests = index["manifests"]
        return [Named(each["annotations"][NAME], each["digest"]) for each in manifests]
    except FileNotFoundError:
        raise ToolError(f"there is no image archive {file}: run make images") from None
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise ToolError(
            f"{file} is not an OCI archive whose index.json names its images by {NAME}: {error}"
        ) from None
