"""Writes and reads images as OCI archives: a tar file with oci-layout, index.json and blobs/sha256.

Another part of the repository makes its own image with:

    image = Image("corelane-pause", "0.2.0", "amd64", created=0, entrypoint=("/pause",))
    archive.write(image, [[layer.program("/pause", built)]], Path("pause-amd64.tar"))
"""

import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from images import layer
from images.layer import Digest, Entry, Layer

CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
USER = "65532:65532"
"""The `nonroot` user that other images without a shell also use, as a number, so that kubelets can
check it.
"""
DIGEST = "{digest}"
DIGITS = 12
LIBRARY = "docker.io/library/"
NAME = "io.containerd.image.name"


@dataclass(frozen=True)
class Image:
    name: str
    tag: str
    arch: str
    created: int
    entrypoint: tuple[str, ...]
    user: str = USER
    ports: tuple[int, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layered:
    """The content of one layer. `time` is the modification time of its files and defaults to the
    image's.
    """

    entries: Sequence[Entry]
    time: int | None = None


@dataclass(frozen=True)
class Blob:
    digest: str
    size: int
    content: bytes | Path

    @property
    def path(self) -> str:
        return _path(self.digest)

    def descriptor(self, media_type: str) -> dict:
        return {"mediaType": media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class Archive:
    """An image archive and the digest of its manifest."""

    file: Path
    image: Image
    digest: str


def write(image: Image, layers: Iterable[Sequence[Entry] | Layered], file: Path) -> Archive:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".layers-", dir=file.parent) as folder:
        packed = []
        for number, content in enumerate(layers):
            part = content if isinstance(content, Layered) else Layered(content)
            time = image.created if part.time is None else part.time
            packed.append(layer.pack(part.entries, time, Path(folder) / str(number)))
        config = _blob(_config(image, packed))
        manifest = _blob(_manifest(image, config, packed))
        blobs = [manifest, config, *(Blob(each.digest, each.size, each.file) for each in packed)]
        digits = manifest.digest.partition(":")[2][:DIGITS]
        image = replace(image, tag=image.tag.replace(DIGEST, digits))
        contents: dict[str, bytes | Path] = {
            "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
            "index.json": _json(_index(image, manifest)),
            "manifest.json": _json(_docker(image, config, blobs[2:])),
            **{blob.path: blob.content for blob in sorted(blobs, key=lambda blob: blob.digest)},
        }
        _pack(file, contents, image.created)
    return Archive(file, image, manifest.digest)


def read(file: Path) -> Archive:
    with tarfile.open(file) as tar:
        (found,) = json.load(tar.extractfile("index.json"))["manifests"]
        manifest = _load(tar, found["digest"])
        config = _load(tar, manifest["config"]["digest"])
    name, _, tag = found["annotations"][NAME].removeprefix(LIBRARY).rpartition(":")
    image = Image(
        name=name,
        tag=tag,
        arch=config["architecture"],
        created=int(datetime.fromisoformat(config["created"]).timestamp()),
        entrypoint=tuple(config["config"]["Entrypoint"]),
        user=config["config"]["User"],
        labels=config["config"]["Labels"],
    )
    return Archive(file, image, found["digest"])


def layers(file: Path) -> Iterator[tarfile.TarFile]:
    with tarfile.open(file) as tar:
        (found,) = json.load(tar.extractfile("index.json"))["manifests"]
        for part in _load(tar, found["digest"])["layers"]:
            with tarfile.open(fileobj=tar.extractfile(_path(part["digest"])), mode="r:gz") as each:
                yield each


def _load(tar: tarfile.TarFile, digest: str) -> dict:
    return json.load(tar.extractfile(_path(digest)))


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _index(image: Image, manifest: Blob) -> dict:
    # A name that includes a registry is complete.
    library = "" if "." in image.name.partition("/")[0] else LIBRARY
    names = {
        # containerd reads the first annotation; tools that follow only the specification read the
        # second.
        NAME: f"{library}{image.name}:{image.tag}",
        "org.opencontainers.image.ref.name": image.tag,
    }
    platform = {"architecture": image.arch, "os": "linux"}
    entry = {**manifest.descriptor(MANIFEST), "platform": platform, "annotations": names}
    return {"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}


def _docker(image: Image, config: Blob, packed: Sequence[Blob]) -> list[dict]:
    """manifest.json, which Docker without its containerd store reads instead of index.json."""
    names = [f"{image.name}:{image.tag}"]
    return [{"Config": config.path, "RepoTags": names, "Layers": [each.path for each in packed]}]


def _pack(file: Path, contents: dict[str, bytes | Path], time: int) -> None:
    # Concurrent builds may write the same archive.
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    with tarfile.open(fresh, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in contents.items():
            _add(tar, name, content, time)
    fresh.replace(file)


def _add(tar: tarfile.TarFile, name: str, content: bytes | Path, time: int) -> None:
    member = tarfile.TarInfo(name)
    member.mtime, member.mode = time, 0o644
    if isinstance(content, bytes):
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
        return
    with open(content, "rb") as stream:
        member.size = content.stat().st_size
        tar.addfile(member, stream)


def _config(image: Image, layers: list[Layer]) -> dict:
    created = rfc3339(image.created)
    return {
        "created": created,
        "architecture": image.arch,
        "os": "linux",
        "config": {
            "User": image.user,
            "Entrypoint": list(image.entrypoint),
            "WorkingDir": "/",
            "ExposedPorts": {f"{port}/tcp": {} for port in image.ports},
            "Labels": image.labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [each.diff_id for each in layers]},
        "history": [{"created": created, "created_by": "hack/images"} for _ in layers],
    }


def _manifest(image: Image, config: Blob, layers: list[Layer]) -> dict:
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(CONFIG),
        "layers": [
            Blob(each.digest, each.size, each.file).descriptor(layer.MEDIA_TYPE) for each in layers
        ],
        "annotations": image.labels,
    }


def rfc3339(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _blob(value: dict) -> Blob:
    content = _json(value)
    digest = Digest()
    digest.update(content)
    return Blob(digest.name(), digest.size, content)


def _json(value: object) -> bytes:
    """Encodes equal values as equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
