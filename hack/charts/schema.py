"""The schema of a chart's values, from the comments in values.yaml."""

import subprocess
from pathlib import Path

from charts.tree import REPOSITORY
from tools import resolve
from tools.errors import ToolError

SCRIPT = Path(__file__).with_name("schema_of_values.py")


def of_chart(chart: Path) -> str:
    """The text that charts/<name>/values.schema.json should have."""
    # The Python that pytest runs with has PyYAML.
    python = resolve.ensure(["pytest"])["pytest"].parent / "python"
    argv = [python, SCRIPT, chart.relative_to(REPOSITORY)]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"no schema for {chart.name}:\n{result.stderr.strip()}")
    return result.stdout
