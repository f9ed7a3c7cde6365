"""Prints the YAML documents of standard input in one form: sorted, without comments.

Runs with the Python that pytest runs with, because it has PyYAML.
"""

import sys

import yaml


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


def _place(document: dict) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def main() -> None:
    """Prints the documents by kind and name."""
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document]
    documents.sort(key=_place)
    yaml.dump_all(documents, sys.stdout, Dumper=Dumper, width=100, explicit_start=True)


main()
