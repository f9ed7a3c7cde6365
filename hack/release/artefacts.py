"""The artefacts of a release, each identified by its digest."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.errors import ToolError

IMAGE, INDEX, CHART = "image", "index", "chart"

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Artefact:
    """An image has an `arch` and is listed in its index; other artefacts have a `tag`."""

    kind: str
    name: str
    repository: str
    digest: str
    tag: str = ""
    arch: str = ""

    @property
    def reference(self) -> str:
        return f"{self.repository}@{self.digest}"


def digest_in(text: str, what: str) -> str:
    """Returns the only digest in the output of a program."""
    found = set(DIGEST.findall(text))
    if len(found) != 1:
        raise ToolError(f"{what}: expected one digest, found {len(found)} in:\n{text}")
    return found.pop()


def save(artefacts: list[Artefact], file: Path) -> None:
    file.write_text(json.dumps([asdict(artefact) for artefact in artefacts], indent=2) + "\n")


def table(artefacts: list[Artefact]) -> str:
    rows = [("KIND", "NAME", "ARCH", "TAG", "DIGEST")]
    rows += [(a.kind, a.name, a.arch or "-", a.tag or "-", a.digest) for a in artefacts]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines)
