"""The places that repeat the version. Cargo itself writes its lock files, and checks them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import command
from tools.errors import ToolError

WORKSPACES = ("services", "loadtests/bench")
"""The folders with a Cargo.lock."""

VERSION = r'"?(?P<version>[^"\s]+)'
CHART = re.compile(rf"^(?P<what>version|appVersion): *{VERSION}", re.MULTILINE)
BESIDE = re.compile(
    rf'^ *- name: (?P<what>\S+)\n +version: *{VERSION}"?\n +repository: file://', re.MULTILINE
)
"""A dependency on another chart of this repository."""
CARGO = re.compile(
    rf"^\[workspace\.package\]\n(?:(?!\[).*\n)*?(?P<what>version) = {VERSION}", re.MULTILINE
)
"""The version that the crates of a workspace share."""


@dataclass(frozen=True)
class Place:
    """A version in a file, between two offsets."""

    file: Path
    line: int
    start: int
    end: int
    what: str
    version: str


def find(root: Path) -> list[Place]:
    """Every place below `root`."""
    found: list[Place] = []
    for file in sorted(root.glob("charts/*/Chart.yaml")):
        beside = list(_matches(file, BESIDE))
        if len(beside) != file.read_text().count("repository: file://"):
            raise ToolError(
                f"{file}: a dependency needs name, version and repository, in this order"
            )
        found += [*_matches(file, CHART), *beside]
    for workspace in WORKSPACES:
        found += _matches(root / workspace / "Cargo.toml", CARGO)
    return found


def write(root: Path, version: str) -> None:
    """Writes `version` to all places and lock files."""
    # From the end of each file, so that earlier offsets stay valid.
    for place in sorted(find(root), key=lambda place: place.start, reverse=True):
        text = place.file.read_text()
        place.file.write_text(text[: place.start] + version + text[place.end :])
    for workspace in WORKSPACES:
        command.output(["cargo", "update", "--workspace"], cwd=root / workspace)


def _matches(file: Path, pattern: re.Pattern[str]) -> Iterator[Place]:
    text = file.read_text()
    for match in pattern.finditer(text):
        start, end = match.span("version")
        line = text.count("\n", 0, start) + 1
        yield Place(file, line, start, end, match["what"], match["version"])
