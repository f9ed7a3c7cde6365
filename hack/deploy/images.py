"""Loads this tree's images onto the cluster's nodes, each with its digest in its tag.

A pod keeps an image that the node has under the same tag. Because the tag contains the digest, a
changed image replaces the pods and an unchanged image keeps them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deploy import run
from tools import progress

PLACES = {
    "server": ("service",),
    "gateway": ("gateway",),
    "cli": ("service.test", "gateway.test", "monitoring.test"),
    "node-tuner": ("node-tuning",),
    "prometheus": ("monitoring.prometheus",),
    "alertmanager": ("monitoring.alertmanager",),
}
"""The images, each with the umbrella chart's keys that refer to it."""
ALWAYS = ("server", "gateway", "cli", "node-tuner")
FOLDER = run.REPOSITORY / ".run" / "deploy"


@dataclass(frozen=True)
class Built:
    name: str
    archive: Path
    tag: str


Images = dict[str, Built]


def load(more: Iterable[str] = ()) -> Images:
    """Builds the images of every release, and `more`, and loads them onto the nodes."""
    images = {name: build(name) for name in dict.fromkeys((*ALWAYS, *more))}
    # `helm test` of a service outside the release uses the tag in the service's chart.
    tests = _build("cli", _version(), FOLDER / "released")
    bring([image.archive for image in (*images.values(), tests)])
    return images


def load_as(name: str, suffix: str) -> str:
    built = build(name, suffix)
    bring([built.archive])
    return built.tag


def settings_of(images: Images) -> list[str]:
    return [
        f"{place}.image.tag={image.tag}"
        for image in images.values()
        for place in PLACES[image.name]
    ]


def build(name: str, suffix: str = "") -> Built:
    tag = "-".join(filter(None, [_version(), "{digest}", suffix]))
    return _build(name, tag, FOLDER / (suffix or "plain"))


def _version() -> str:
    return (run.REPOSITORY / "VERSION").read_text().strip()


def _build(name: str, tag: str, out: Path) -> Built:
    options = ["--tag", tag, "--profile", run.profile(), "--out", out]
    reference, _, _, archive = run.ours("images", "build", name, *options).strip().split("  ", 3)
    return Built(name, Path(archive), reference.partition(":")[2])


def bring(archives: list[Path]) -> None:
    with progress.step("images", f"loading {', '.join(archive.stem for archive in archives)}"):
        run.ours("cluster", "load", *archives)
