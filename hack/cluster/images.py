"""The images of pause and CoreDNS, and loading images into the nodes."""

import json
import platform
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster.configuration import COREDNS, PAUSE, NodeFiles
from cluster.programs import Programs
from cluster.settings import FOLDER
from images import archive, layer
from images.archive import Image
from tools import cache, command
from tools.errors import ToolError

NAME = "io.containerd.image.name"

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def own(programs: Programs) -> list[Path]:
    """Archives of the two images that a cluster cannot do without, made once."""
    return [_archive(PAUSE, "/pause", _pause()), _archive(COREDNS, "/coredns", programs["coredns"])]


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


def _archive(reference: str, path: str, program: Path) -> Path:
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


def load(
    files: Mapping[str, NodeFiles], programs: Programs, archives: Iterable[Path]
) -> dict[str, list[str]]:
    """Imports archives into all nodes, and tells the new references of each node."""
    archives = list(archives)
    for archive_file in archives:
        if not archive_file.is_file():
            raise ToolError(f"there is no image archive {archive_file}")
    with ThreadPoolExecutor() as pool:
        results = pool.map(lambda node: _import(node, programs, archives), files.values())
        return dict(zip(files, results, strict=True))


def _import(node: NodeFiles, programs: Programs, archives: list[Path]) -> list[str]:
    references = []
    for file in archives:
        _ctr(node, programs, "images", "import", str(file.resolve()))
        for name, digest in _contents(file):
            # A pod may also pin the digest.
            pinned = f"{name.rpartition(':')[0]}@{digest}"
            _ctr(node, programs, "images", "tag", "--force", name, pinned)
            references += [name, pinned]
    return references


def _ctr(node: NodeFiles, programs: Programs, *arguments: str) -> str:
    argv = [str(programs["ctr"]), "--address", str(node.socket), "--namespace", "k8s.io"]
    argv += arguments
    result = subprocess.run(
        argv, env=programs.environment(), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise ToolError(f"{' '.join(argv)} failed: {result.stderr.strip()}")
    return result.stdout


def _contents(file: Path) -> list[tuple[str, str]]:
    """The names and digests of the images in an archive."""
    try:
        with tarfile.open(file) as tar:
            index = json.load(tar.extractfile("index.json"))
        manifests = index["manifests"]
        return [(each["annotations"][NAME], each["digest"]) for each in manifests]
    except (tarfile.TarError, KeyError, ValueError) as error:
        raise ToolError(
            f"{file} is no OCI archive whose index.json names its images by {NAME}: {error}"
        ) from None
