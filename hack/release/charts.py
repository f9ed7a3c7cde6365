"""Packages the charts, with the digests of the images in them, and pushes them."""

import re
import shutil
from pathlib import Path

from release import command
from release.artefacts import CHART, INDEX, Artefact, digest_in
from tools import resolve
from tools.errors import ToolError


def released(root: Path) -> list[Path]:
    """The charts that users install: all but the library charts."""
    return [
        file.parent
        for file in sorted(root.glob("charts/*/Chart.yaml"))
        if not re.search(r"^type: *library", file.read_text(), re.MULTILINE)
    ]


def keep_released(root: Path, version: str) -> None:
    """Packages the charts as they are, where the archives of `version` are missing."""
    folder = root / "tests" / "charts" / "released"
    folder.mkdir(parents=True, exist_ok=True)
    for chart in released(root):
        if not (folder / f"{chart.name}-{version}.tgz").exists():
            package(chart, folder)


def package(chart: Path, folder: Path) -> Path:
    """Packages a chart into `folder` and returns the archive."""
    output = command.output([_helm(), "package", chart, "--destination", folder])
    # "Successfully packaged chart and saved it to: FILE"
    return Path(output.strip().rsplit(": ", 1)[1])


def package_all(root: Path, images: list[Artefact], folder: Path) -> list[Path]:
    """Packages the charts of `root` so that they take `images` from where they were pushed."""
    shutil.rmtree(folder, ignore_errors=True)
    # Links stay: through them a chart finds the pinned copies of those it depends on.
    shutil.copytree(root / "charts", folder / "charts", symlinks=True)
    charts = released(folder)
    for image in images:
        if image.kind == INDEX and not any(_pin(chart, image) for chart in charts):
            raise ToolError(f"no chart takes the image {image.repository}")
    return [package(chart, folder) for chart in charts]


def push(registry: str, version: str, packages: list[Path], options: list[str]) -> list[Artefact]:
    """Pushes packaged charts to REGISTRY/charts."""
    pushed = []
    for file in packages:
        name = file.name.removesuffix(f"-{version}.tgz")
        argv = [_helm(), "push", file, f"oci://{registry}/charts", *options]
        # Helm says it on stderr.
        digest = digest_in(command.said(argv), "helm push")
        pushed.append(Artefact(CHART, name, f"{registry}/charts/{name}", digest, tag=version))
    return pushed


def pinned(values: str, image: Artefact) -> str | None:
    """The values of a chart with its image replaced; None if it is a chart of another image."""
    head, start, rest = values.partition("\nimage:\n")
    block = re.match(r"(?:(?: .*|#.*)?\n)*", rest)[0] if start else ""
    registry, name = image.repository.rsplit("/", 1)
    if not re.search(rf'^  repository: "?{name}"?$', block, re.MULTILINE):
        return None
    fields = {"digest": image.digest}
    if re.search(r"^  registry:", block, re.MULTILINE):
        fields["registry"] = registry
    else:
        fields["repository"] = image.repository
    new = block
    for key, value in fields.items():
        new, count = re.subn(rf"^  {key}:.*$", f"  {key}: {value}", new, flags=re.MULTILINE)
        if count != 1:
            raise ToolError(f"values.yaml of the chart that takes {name}: no image.{key}")
    return head + start + new + rest[len(block) :]


def _pin(chart: Path, image: Artefact) -> bool:
    file = chart / "values.yaml"
    new = pinned(file.read_text(), image)
    if new is not None:
        file.write_text(new)
    return new is not None


def _helm() -> Path:
    return resolve.ensure(["helm"])["helm"]
