"""Annotations for Artifact Hub that only a release can provide:
https://artifacthub.io/docs/topics/annotations/helm/.

A signing key is not among them: Artifact Hub itself finds the signatures that cosign adds in the registry.
"""

import json
import re

KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Headings of Keep a Changelog, which Artifact Hub uses in lower case."""


def annotated(chart: str, images: dict[str, str], changes: list[tuple[str, str]]) -> str:
    """Adds images by name and changes by kind to the content of a Chart.yaml file."""
    lines = ["annotations:"]
    named = [{"name": name, "image": image} for name, image in images.items()]
    listed = [{"kind": kind, "description": words} for kind, words in changes]
    for key, entries in (("images", named), ("changes", listed)):
        if entries:
            lines += [f"  artifacthub.io/{key}: |", *(f"    - {json.dumps(it)}" for it in entries)]
    return re.sub(r"^annotations:$", lambda _: "\n".join(lines), chart, flags=re.MULTILINE)


def changes_of(changelog: str, version: str) -> list[tuple[str, str]]:
    """Returns the kind and the text of each change of a version."""
    section = re.search(
        rf"^## \[{re.escape(version)}\].*\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE
    )
    found = []
    for kind, text in (
        re.findall(r"^### (\w+)\n((?:(?!### ).*\n?)*)", section[1], re.MULTILINE) if section else ()
    ):
        for item in re.findall(r"^- (.*(?:\n  .*)*)", text, re.MULTILINE) if kind in KINDS else ():
            found.append((kind.lower(), " ".join(item.split())))
    return found
