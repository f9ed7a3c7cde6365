"""Packages the charts with the digests of their images, and pushes them."""

import os
import re
import shutil
from pathlib import Path

from release import pin
from release.artefacts import CHART, Artefact, digest_in
from release.repack import repack
from tools import command, resolve


def released(root: Path) -> list[Path]:
    """The charts that users install: all but the library charts."""
    return [
        file.parent
        for file in sorted(root.glob("charts/*/Chart.yaml"))
        if not re.search(r"^type: *library", file.read_text(), re.MULTILINE)
    ]


def keep_released(root: Path, version: str) -> None:
    """Packages the charts as they are, unless their archives of `version` exist."""
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
    """Packages the charts of `root` so that they use the pushed `images`."""
    shutil.rmtree(folder, ignore_errors=True)
    # Links stay: a chart has links to the charts it depends on, and to files of the other folders.
    for part in ("charts", "dashboards", "loadtests/scenarios", "loadtests/lib"):
        shutil.copytree(root / part, folder / part, symlinks=True)
    charts = released(folder)
    pin.pin(charts, images)
    packages = [package(chart, folder) for chart in charts]
    # The time of the commit is the same however often it is packaged.
    time = int(command.output(["git", "log", "-1", "--format=%ct"], cwd=root))
    for file in packages:
        repack(file, time)
        # `helm push` puts the archive's modification time into the manifest.
        os.utime(file, (time, time))
    return packages


def push(registry: str, version: str, packages: list[Path], options: list[str]) -> list[Artefact]:
    """Pushes packaged charts to REGISTRY/charts."""
    pushed = []
    for file in packages:
        name = file.name.removesuffix(f"-{version}.tgz")
        argv = [_helm(), "push", file, f"oci://{registry}/charts", *options]
        # Helm prints the digest on stderr.
        digest = digest_in(command.said(argv), "helm push")
        pushed.append(Artefact(CHART, name, f"{registry}/charts/{name}", digest, tag=version))
    return pushed


def _helm() -> Path:
    return resolve.ensure(["helm"])["helm"]
