"""The README of a chart, by helm-docs."""

import subprocess
from pathlib import Path

from tools import resolve
from tools.errors import ToolError

TEMPLATE = "_README.gotmpl"
"""In the folder above the charts; a chart's own README.gotmpl adds to it."""


def of_chart(chart: Path) -> str:
    """The text that charts/<name>/README.md should have."""
    argv = [resolve.ensure(["helm-docs"])["helm-docs"], "--dry-run", "--log-level", "warning"]
    argv += ["--chart-search-root", chart, "--sort-values-order", "file"]
    for template in _templates(chart):
        argv += ["--template-files", template]
    result = subprocess.run(argv, cwd=chart, capture_output=True, text=True, check=False)
    # helm-docs exits with 0 also when a template failed; then it says so.
    if result.returncode != 0 or "level=" in result.stderr:
        raise ToolError(f"helm-docs failed for {chart.name}:\n{result.stderr.strip()}")
    lines = [line.rstrip() for line in result.stdout.strip().splitlines()]
    return "\n".join(lines) + "\n"


def _templates(chart: Path) -> list[str]:
    own = ["README.gotmpl"] if (chart / "README.gotmpl").exists() else []
    return [*own, f"../{TEMPLATE}"]
