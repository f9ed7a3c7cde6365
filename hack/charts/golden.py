"""What the charts render, kept in files: a change of a template shows what it changes."""

import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from charts.compare import REPOSITORY, Files
from tools import resolve
from tools.errors import ToolError

CHARTS = REPOSITORY / "charts"
FOLDER = REPOSITORY / "tests" / "charts" / "golden"
CASES = FOLDER.parent / "cases.yaml"
REGISTRY = FOLDER.parent / "registry.yaml"
"""The values without which no chart has images."""

KUBERNETES = "1.34.0"
"""Given to Helm, whose own default changes from release to release."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where there is one: dashboards are long."""

_OWN_VALUES = tempfile.TemporaryDirectory()
"""Helm takes files; they go at the end of the program."""


@dataclass(frozen=True)
class Case:
    """A chart and the values that it is rendered with: its own, or those of files."""

    name: str
    chart: str
    golden: bool = False
    values: dict = field(default_factory=dict, hash=False)
    files: list[str] = field(default_factory=list, hash=False)

    @property
    def file(self) -> Path:
        """Where the render is kept, if it is."""
        return FOLDER / f"{self.name}.yaml"

    def arguments(self) -> list[str | Path]:
        """The chart and its values, as Helm takes them."""
        files = [argument for file in self.values_files() for argument in ("--values", file)]
        # Before the files, which may set another.
        return [CHARTS / self.chart, "--values", REGISTRY, *files]

    def values_files(self) -> list[Path]:
        """The files with its values; its own are written into a temporary folder."""
        files = [REPOSITORY / file for file in self.files]
        if self.values:
            files.append(Path(_OWN_VALUES.name) / f"{self.name}.yaml")
            files[-1].write_text(yaml.safe_dump(self.values))
        return files


def cases() -> list[Case]:
    """All cases of cases.yaml."""
    return [Case(name, **entry) for name, entry in yaml.load(CASES.read_text(), LOADER).items()]


def case(name: str) -> Case:
    """The case of that name."""
    (found,) = (each for each in cases() if each.name == name)
    return found


def files() -> Files:
    """Every golden file and what it should hold."""
    return {case.file: canonical(render(case)) for case in cases() if case.golden}


def strays() -> list[Path]:
    """Golden files of which no case is left."""
    return sorted(set(FOLDER.glob("*.yaml")) - {case.file for case in cases() if case.golden})


def render(case: Case) -> list[dict]:
    """The objects that Helm renders for a case, by kind and name."""
    argv = [resolve.ensure(["helm"])["helm"], "template", "corelane", *case.arguments()]
    argv += ["--namespace", "prod", "--kube-version", KUBERNETES]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"helm template failed for {case.name}:\n{result.stderr.strip()}")
    objects = [each for each in yaml.load_all(result.stdout, LOADER) if each]
    return sorted(objects, key=lambda each: (each["kind"], each["metadata"]["name"]))


def canonical(objects: list[dict]) -> str:
    """Objects as text: keys sorted, without comments, and files of other folders by their names. What holds no other
    collection is on one line, as in the values."""
    for each in objects:
        _shorten(each)
    style = {"width": 120, "default_flow_style": None}
    return yaml.dump_all(objects, Dumper=_Dumper, explicit_start=True, **style)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and nothing as a reference to something above."""

    def ignore_aliases(self, _data: object) -> bool:
        """Each object is read alone."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if "\n" not in text:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text)
    # YAML cannot write a line that ends with a space as it is, and in no file of ours it matters.
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", lines, style="|")


_Dumper.add_representer(str, _text)


def _shorten(document: dict) -> None:
    """Replaces the content of a file in other folders by its name, because changes are reviewed there."""
    if document["kind"] == "ConfigMap":
        data = document.get("data") or {}
        for name in data:
            for folder in ("dashboards", "loadtests"):
                for file in (REPOSITORY / folder).glob(f"*/{name}"):
                    if _same(name, data[name], file.read_text()):
                        data[name] = f"<{file.relative_to(REPOSITORY)}>"
    if document["kind"] == "PrometheusRule":
        for file in REPOSITORY.glob("dashboards/rules/*.rules.yaml"):
            if _without_links(document["spec"]) == yaml.load(file.read_text(), LOADER):
                document["spec"] = f"<{file.relative_to(REPOSITORY)}>"


def _same(name: str, one: str, other: str) -> bool:
    """Whether two files hold the same; what Helm has written has another form and no comments."""
    if _without_address(one) == _without_address(other):
        return True
    if not name.endswith(".yaml"):
        return False
    return _without_links(yaml.load(one, LOADER)) == yaml.load(other, LOADER)


def _without_address(text: str) -> str:
    """A dashboard without the address of the runbooks, which the chart sets: tests/charts compares that."""
    return re.sub(r"https://[^\"]+/dashboards/runbooks/", "", text.strip())


def _without_links(rules: object) -> object:
    """Files of rules as they are without what the chart adds to alerts: tests/charts compares that."""
    if not isinstance(rules, dict):
        return rules
    for group in rules.get("groups", []):
        for rule in group["rules"]:
            for link in ("runbook_url", "dashboard_url"):
                rule.get("annotations", {}).pop(link, None)
    return rules
