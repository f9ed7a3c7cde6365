"""Prints the YAML documents of standard input in one form: sorted, without comments.

What is a file of the folders dashboards or loadtests is shown as its name: a change is looked at there.

Runs with the Python that pytest runs with, because it has PyYAML.
"""

import sys
from pathlib import Path

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where there is one: dashboards are long."""

REPOSITORY = Path(__file__).resolve().parents[2]
DASHBOARDS = REPOSITORY / "dashboards"
LINKED = (DASHBOARDS, REPOSITORY / "loadtests")
"""Folders of which charts have files by links."""


class Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and nothing as a reference to something above."""

    def ignore_aliases(self, _data: object) -> bool:
        """Each object is read alone."""
        return True


def _text(dumper: Dumper, text: str) -> yaml.ScalarNode:
    if "\n" not in text:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text)
    # YAML cannot write a line that ends with a space as it is, and in no file of ours it matters.
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", lines, style="|")


Dumper.add_representer(str, _text)


def _shorten(document: dict) -> None:
    """Puts the name of a file in the place of its content."""
    if document["kind"] == "ConfigMap":
        data = document.get("data") or {}
        for name in data:
            for file in (found for folder in LINKED for found in folder.glob(f"*/{name}")):
                if _same(name, data[name], file.read_text()):
                    data[name] = f"<{file.relative_to(REPOSITORY)}>"
    if document["kind"] == "PrometheusRule":
        for file in DASHBOARDS.glob("rules/*.rules.yaml"):
            if document["spec"] == yaml.load(file.read_text(), LOADER):
                document["spec"] = f"<dashboards/{file.relative_to(DASHBOARDS)}>"


def _same(name: str, one: str, other: str) -> bool:
    """Whether two files hold the same; what Helm has written has another form and no comments."""
    if one.strip() == other.strip():
        return True
    return name.endswith(".yaml") and yaml.load(one, LOADER) == yaml.load(other, LOADER)


def _place(document: dict) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def main() -> None:
    """Prints the documents by kind and name."""
    documents = [document for document in yaml.load_all(sys.stdin, Loader=LOADER) if document]
    documents.sort(key=_place)
    for document in documents:
        _shorten(document)
    yaml.dump_all(documents, sys.stdout, Dumper=Dumper, width=100, explicit_start=True)


main()
