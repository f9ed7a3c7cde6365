"""Reads OCI archives, and finds what is wrong in them."""

import io
import json
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from images import layer
from images.archive import INDEX, MANIFEST, Blob
from images.layer import Digest
from tools.errors import ToolError


@dataclass(frozen=True)
class Manifest:
    """One image of an archive."""

    arch: str
    digest: str
    content: dict
    config: dict


@dataclass(frozen=True)
class Contents:
    """An archive of which every digest is right."""

    file: Path
    descriptor: dict
    """What index.json points to: a manifest, or an index over several."""
    blobs: dict[str, Blob]
    manifests: list[Manifest]

    def layer(self, number: int, manifest: Manifest | None = None) -> tarfile.TarFile:
        """A layer of the image, for reading; by default of the only one."""
        (chosen,) = [manifest] if manifest else self.manifests
        blob = self.blobs[chosen.content["layers"][number]["digest"]]
        return tarfile.open(fileobj=io.BytesIO(blob.content), mode="r:gz")


def read(file: Path) -> Contents:
    """Reads an archive; an error names what does not fit."""
    members = _members(file)
    blobs = {}
    for name, content in members.items():
        if name.startswith("blobs/"):
            blob = Blob(_digest(content), len(content), content)
            if blob.path != name:
                raise ToolError(f"{file}: {name} has the digest {blob.digest}: it was changed")
            blobs[blob.digest] = blob
    try:
        (descriptor,) = json.loads(members["index.json"])["manifests"]
        manifests = [_manifest(each, blobs) for each in _images(descriptor, blobs)]
    except (KeyError, ValueError) as error:
        raise ToolError(f"{file} is not a whole OCI archive: {error!r}") from error
    return Contents(file, descriptor, blobs, manifests)


def _members(file: Path) -> dict[str, bytes]:
    try:
        with tarfile.open(file, "r:") as tar:
            return {each.name: tar.extractfile(each).read() for each in tar if each.isfile()}
    except (OSError, tarfile.TarError) as error:
        raise ToolError(f"{file} cannot be read as a tar file: {error}") from error


def _images(descriptor: dict, blobs: dict[str, Blob]) -> list[dict]:
    """The descriptors of the images: that of index.json, or those of the index it points to."""
    if descriptor["mediaType"] == MANIFEST:
        return [descriptor]
    if descriptor["mediaType"] != INDEX:
        raise ValueError(f"index.json points to {descriptor['mediaType']}")
    return json.loads(_blob(descriptor, blobs).content)["manifests"]


def _manifest(descriptor: dict, blobs: dict[str, Blob]) -> Manifest:
    content = json.loads(_blob(descriptor, blobs).content)
    config = json.loads(_blob(content["config"], blobs).content)
    for part, diff_id in zip(content["layers"], config["rootfs"]["diff_ids"], strict=True):
        found = _digest(zlib.decompress(_blob(part, blobs).content, layer.GZIP))
        if found != diff_id:
            raise ValueError(f"the layer {part['digest']} holds {found}, not {diff_id}")
    return Manifest(config["architecture"], descriptor["digest"], content, config)


def _blob(descriptor: dict, blobs: dict[str, Blob]) -> Blob:
    blob = blobs[descriptor["digest"]]
    if blob.size != descriptor["size"]:
        raise ValueError(f"{blob.digest} has {blob.size} bytes, not {descriptor['size']}")
    return blob


def _digest(content: bytes) -> str:
    digest = Digest()
    digest.update(content)
    return digest.name()
