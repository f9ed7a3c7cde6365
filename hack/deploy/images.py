"""The images of this tree, on the nodes of the cluster, under tags that say what is in them.

A pod keeps an image that it has under the same tag. So the tag carries the image's digest: what
changed has another tag and rolls the pods, what did not change rolls nothing.
"""

import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deploy import run, settings
from tools import progress

PLACES = {
    "server": ("server", "monitoring.test"),
    "gateway": ("gateway",),
    "node-tuner": ("node-tuning",),
    "prometheus": ("monitoring.prometheus",),
    "alertmanager": ("monitoring.alertmanager",),
}
"""The images, each with the values of the umbrella chart below which `image` is it."""
ALWAYS = ("server", "gateway", "node-tuner")
FOLDER = settings.REPOSITORY / ".run" / "deploy"
DIGITS = 12


@dataclass(frozen=True)
class Built:
    """An image archive, and the tag under which the nodes have it."""

    name: str
    archive: Path
    tag: str


Images = dict[str, Built]


def load(more: Iterable[str] = ()) -> Images:
    """Builds the images of every release, and more, and brings them to the nodes."""
    images = {name: build(name) for name in dict.fromkeys((*ALWAYS, *more))}
    bring([image.archive for image in images.values()])
    return images


def load_as(name: str, suffix: str) -> str:
    """Brings an image to the nodes once more, under its tag with a suffix; gives the tag."""
    built = build(name, suffix)
    bring([built.archive])
    return built.tag


def settings_of(images: Images) -> list[str]:
    """The values that make the charts use these images."""
    return [
        f"{place}.image.tag={image.tag}"
        for image in images.values()
        for place in PLACES[image.name]
    ]


def build(name: str, suffix: str = "") -> Built:
    """Builds one image and names its archive after its content."""
    run.ours("images", "build", name, "--out", FOLDER / "plain")
    (plain,) = (FOLDER / "plain").glob(f"{name}-*.tar")
    index = _index(plain)
    (manifest,) = index["manifests"]
    version = (settings.REPOSITORY / "VERSION").read_text().strip()
    digest = manifest["digest"].split(":")[1][:DIGITS]
    tag = "-".join(filter(None, [version, digest, suffix]))
    archive = FOLDER / f"{name}-{tag}.tar"
    if not archive.exists():
        for old in FOLDER.glob(f"{name}-*{suffix}.tar"):
            old.unlink()
        _rename(plain, archive, index, tag)
    return Built(name, archive, tag)


def bring(archives: list[Path]) -> None:
    """Loads archives into the nodes."""
    with progress.step("images", f"loading {', '.join(archive.stem for archive in archives)}"):
        run.ours("cluster", "load", *archives)


def _index(archive: Path) -> dict:
    with tarfile.open(archive) as tar:
        return json.load(tar.extractfile("index.json"))


def _rename(source: Path, target: Path, index: dict, tag: str) -> None:
    """Copies an archive with another tag in its index; the digests stay."""
    names = index["manifests"][0]["annotations"]
    repository = names["io.containerd.image.name"].rsplit(":", 1)[0]
    names["io.containerd.image.name"] = f"{repository}:{tag}"
    names["org.opencontainers.image.ref.name"] = tag
    fresh = target.with_suffix(".new")
    with tarfile.open(source) as old, tarfile.open(fresh, "w") as new:
        for member in old:
            content = old.extractfile(member)
            # Docker's own list of names, which no node of ours reads.
            if member.name == "manifest.json":
                continue
            if member.name == "index.json":
                text = json.dumps(index).encode()
                member.size, content = len(text), io.BytesIO(text)
            new.addfile(member, content)
    fresh.replace(target)
