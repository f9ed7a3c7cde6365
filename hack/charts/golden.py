"""What the charts render, kept in files: a change of a template shows what it changes."""

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from charts import python
from charts.compare import Files
from charts.tree import CHARTS, REPOSITORY
from tools import resolve
from tools.errors import ToolError

FOLDER = REPOSITORY / "tests" / "charts" / "golden"
CASES = FOLDER / "cases.toml"

KUBERNETES = "1.34.0"
"""Given to Helm, whose own default changes from release to release."""


@dataclass(frozen=True)
class Case:
    """A chart and the values files that it is rendered with."""

    name: str
    chart: str
    values: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """Where the render is kept."""
        return FOLDER / f"{self.name}.yaml"

    def arguments(self) -> list[str | Path]:
        """The chart and its values, as Helm takes them."""
        files = [argument for file in self.values for argument in ("--values", REPOSITORY / file)]
        return [CHARTS / self.chart, *files]


def cases() -> list[Case]:
    """All cases of cases.toml."""
    entries = tomllib.loads(CASES.read_text())
    return [
        Case(name, entry["chart"], tuple(entry.get("values", ())))
        for name, entry in entries.items()
    ]


def render(case: Case) -> str:
    """What Helm renders for a case, in a form that does not depend on Helm's spacing."""
    argv = [resolve.ensure(["helm"])["helm"], "template", "corelane", *case.arguments()]
    argv += ["--namespace", "prod", "--kube-version", KUBERNETES]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"helm template failed for {case.name}:\n{result.stderr.strip()}")
    return python.run("canonical.py", [], result.stdout)


def files() -> Files:
    """Every golden file and what it should hold."""
    return {case.file: render(case) for case in cases()}


def strays() -> list[Path]:
    """Golden files of which no case is left."""
    return sorted(set(FOLDER.glob("*.yaml")) - {case.file for case in cases()})
