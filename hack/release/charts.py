"""Packages the charts."""

import re
from pathlib import Path

from release import command
from tools import resolve


def released(root: Path) -> list[Path]:
    """The charts that users install: all but the library charts."""
    return [
        file.parent
        for file in sorted(root.glob("charts/*/Chart.yaml"))
        if not re.search(r"^type: *library", file.read_text(), re.MULTILINE)
    ]


def package(chart: Path, folder: Path) -> Path:
    """Packages a chart into `folder` and returns the archive."""
    helm = resolve.ensure(["helm"])["helm"]
    output = command.output([helm, "package", chart, "--destination", folder])
    # "Successfully packaged chart and saved it to: FILE"
    return Path(output.strip().rsplit(": ", 1)[1])


def keep_released(root: Path, version: str) -> None:
    """Packages the charts as they are, where the archives of `version` are missing."""
    folder = root / "tests" / "charts" / "released"
    folder.mkdir(parents=True, exist_ok=True)
    for chart in released(root):
        if not (folder / f"{chart.name}-{version}.tgz").exists():
            package(chart, folder)
