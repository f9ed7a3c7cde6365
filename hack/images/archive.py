"""Writes images as OCI archives: a tar file with oci-layout, index.json and blobs/sha256.

Another part of the repository makes an image of its own with:

    image = Image("corelane-pause", "0.2.0", "amd64", created=0, entrypoint=("/pause",))
    archive.write(image, [[layer.program("/pause", built)]], Path("pause-amd64.tar"))
"""

import io
import json
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from images import layer
from images.layer import Digest, Entry, Layer

CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
USER = "65532:65532"
"""Known as `nonroot` in other images without a shell; a number, so that kubelets can check it."""


@dataclass(frozen=True)
class Image:
    """What an image says of itself."""

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
    """The content of one layer. `time` is that of its files; by default the image's."""

    entries: Sequence[Entry]
    time: int | None = None


@dataclass(frozen=True)
class Blob:
    """What an archive holds under the name of its digest."""

    digest: str
    size: int
    content: bytes | Path

    @property
    def path(self) -> str:
        """Its place in the archive."""
        return f"blobs/{self.digest.replace(':', '/')}"

    def descriptor(self, media_type: str) -> dict:
        """How other blobs point to it."""
        return {"mediaType": media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class Archive:
    """A written archive. The digest is that of the manifest, or of the index over several."""

    file: Path
    image: Image
    digest: str
    config: str = ""
    """Digest of the configuration: the image's ID, which does not depend on compression."""


def write(image: Image, layers: Iterable[Sequence[Entry] | Layered], file: Path) -> Archive:
    """Writes the image with these layers, lowest first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".layers-", dir=file.parent) as folder:
        packed = []
        for number, content in enumerate(layers):
            part = content if isinstance(content, Layered) else Layered(content)
            time = image.created if part.time is None else part.time
            packed.append(layer.pack(part.entries, time, Path(folder) / str(number)))
        config = json_blob(_config(image, packed))
        manifest = json_blob(_manifest(image, config, packed))
        blobs = [manifest, config, *(Blob(each.digest, each.size, each.file) for each in packed)]
        descriptor = {**manifest.descriptor(MANIFEST), "platform": platform(image.arch)}
        # Docker without its containerd store reads this file and no index.json.
        docker = [
            {
                "Config": config.path,
                "RepoTags": [f"{image.name}:{image.tag}"],
                "Layers": [blob.path for blob in blobs[2:]],
            }
        ]
        pack(file, image, descriptor, blobs, {"manifest.json": to_json(docker)})
    return Archive(file, image, manifest.digest, config.digest)


def pack(
    file: Path, image: Image, descriptor: dict, blobs: Iterable[Blob], more: dict[str, bytes]
) -> None:
    """Writes the archive whose index.json points to `descriptor`."""
    names = {
        # containerd takes the first, tools that know only the specification the second.
        "io.containerd.image.name": f"docker.io/library/{image.name}:{image.tag}",
        "org.opencontainers.image.ref.name": image.tag,
    }
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{**descriptor, "annotations": names}],
    }
    contents: dict[str, bytes | Path] = {
        "oci-layout": to_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": to_json(index),
        **more,
        **{blob.path: blob.content for blob in sorted(blobs, key=lambda blob: blob.digest)},
    }
    fresh = file.with_name(f".{file.name}.new")
    with tarfile.open(fresh, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in contents.items():
            _add(tar, name, content, image.created)
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


def platform(arch: str) -> dict[str, str]:
    """How an index names a platform."""
    return {"architecture": arch, "os": "linux"}


def rfc3339(time: int) -> str:
    """A time as labels and configurations have it."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def json_blob(value: dict) -> Blob:
    """A JSON document as a blob."""
    content = to_json(value)
    digest = Digest()
    digest.update(content)
    return Blob(digest.name(), digest.size, content)


def to_json(value: object) -> bytes:
    """The same bytes for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
