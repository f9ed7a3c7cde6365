"""Renders the charts for the cases of tests/charts/cases.yaml, and compares the renders after a
change.
"""

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from charts import compare
from stack import REPOSITORY
from stack.rendering import LOADER, REGISTRY
from tools import resolve
from tools.errors import ToolError

CHARTS = REPOSITORY / "charts"
CASES = REPOSITORY / "tests" / "charts" / "cases.yaml"

KUBERNETES = "1.35.0"
"""Fixed, because Helm's own default changes from release to release."""

_OWN_VALUES = tempfile.TemporaryDirectory()
"""Folder for values, which Helm takes only from files; deleted at exit."""


@dataclass(frozen=True)
class Case:
    name: str
    chart: str
    values: dict = field(default_factory=dict, hash=False)
    files: list[str] = field(default_factory=list, hash=False)

    def arguments(self, charts: Path = CHARTS) -> list[str | Path]:
        """Returns Helm's arguments: the chart in this folder and its values."""
        files = [argument for file in self.values_files() for argument in ("--values", file)]
        # The registry's values come first, so that other files may override them.
        return [charts / self.chart, "--values", REGISTRY, *files]

    def values_files(self) -> list[Path]:
        """Inline values are written to a temporary folder."""
        files = [REPOSITORY / file for file in self.files]
        if self.values:
            files.append(Path(_OWN_VALUES.name) / f"{self.name}.yaml")
            files[-1].write_text(yaml.safe_dump(self.values))
        return files


def cases() -> list[Case]:
    return [Case(name, **entry) for name, entry in yaml.load(CASES.read_text(), LOADER).items()]


def case(name: str) -> Case:
    (found,) = (each for each in cases() if each.name == name)
    return found


def render(case: Case, charts: Path = CHARTS) -> list[dict]:
    """The objects that Helm renders for a case, by kind and name."""
    argv = [resolve.tool("helm"), "template", "corelane", *case.arguments(charts)]
    argv += ["--namespace", "prod", "--kube-version", KUBERNETES]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"helm template failed for {case.name}:\n{result.stderr.strip()}")
    objects = [each for each in yaml.load_all(result.stdout, LOADER) if each]
    return sorted(objects, key=lambda each: (each["kind"], each["metadata"]["name"]))


def diff(base: str, charts: Path = CHARTS) -> None:
    """Renders each case with these charts and with a commit's charts, and prints the
    differences."""
    with tempfile.TemporaryDirectory() as folder:
        # Some links in the charts point to these folders.
        linked = ["charts", "dashboards", "gateway", "loadtests"]
        argv = ["git", "-C", REPOSITORY, "archive", base, *linked]
        archive = subprocess.run(argv, capture_output=True, check=False)
        if archive.returncode != 0:
            raise ToolError(archive.stderr.decode().strip())
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for case in cases():
            compare.show(case.name, _text(case, Path(folder) / "charts"), _text(case, charts))


def _text(case: Case, charts: Path) -> str:
    """A render with sorted keys and without comments, or the error: a commit may lack a value."""
    try:
        objects = render(case, charts)
    except ToolError as error:
        return f"{error}\n"
    return yaml.dump_all(
        objects, Dumper=_Dumper, explicit_start=True, allow_unicode=True, width=120
    )


class _Dumper(yaml.SafeDumper):
    """Uses the literal style for multi-line text, and never writes references to earlier objects."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _block(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # YAML's literal style cannot express a line that ends with a space; none of our files depend on
    # such spaces.
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", lines, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _block)
