"""The schema of a chart's values, from the comments in values.yaml."""

from pathlib import Path

from charts import python
from charts.tree import REPOSITORY


def of_chart(chart: Path) -> str:
    """The text that charts/<name>/values.schema.json should have."""
    return python.run("schema_of_values.py", [chart.relative_to(REPOSITORY)])
