"""Manages the version in the VERSION file and its copies in other files.

Cargo itself writes and checks its lock file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from release import charts
from tools import command
from tools.errors import ToolError

VERSION = r'"?(?P<version>[^"\s]+)'
CHART = re.compile(rf"^(?P<what>version|appVersion): *{VERSION}", re.MULTILINE)
BESIDE = re.compile(
    rf'^ *- name: (?P<what>\S+)\n +version: *{VERSION}"?\n +repository: file://', re.MULTILINE
)
CARGO = re.compile(
    rf"^\[workspace\.package\]\n(?:(?!\[).*\n)*?(?P<what>version) = {VERSION}", re.MULTILINE
)


@dataclass(frozen=True)
class Place:
    file: Path
    line: int
    start: int
    end: int
    what: str
    version: str


def find(root: Path) -> list[Place]:
    found: list[Place] = []
    for file in sorted(root.glob("charts/*/Chart.yaml")):
        beside = list(_matches(file, BESIDE))
        if len(beside) != file.read_text().count("repository: file://"):
            raise ToolError(
                f"{file}: a dependency needs name, version and repository, in this order"
            )
        found += [*_matches(file, CHART), *beside]
    found += _matches(root / "services/Cargo.toml", CARGO)
    return found


def _write_places(root: Path, version: str) -> None:
    # Work from the end of each file, so that earlier offsets stay valid.
    for place in sorted(find(root), key=lambda place: place.start, reverse=True):
        text = place.file.read_text()
        place.file.write_text(text[: place.start] + version + text[place.end :])
    command.output(["cargo", "update", "--workspace"], cwd=root / "services")


def _matches(file: Path, pattern: re.Pattern[str]) -> Iterator[Place]:
    text = file.read_text()
    for match in pattern.finditer(text):
        start, end = match.span("version")
        line = text.count("\n", 0, start) + 1
        yield Place(file, line, start, end, match["what"], match["version"])


# Semantic Versioning 2.0.0 without build metadata: an image tag cannot contain the "+".
NUMBER = r"(0|[1-9]\d*)"
FORM = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")


def current(root: Path) -> str:
    return _valid((root / "VERSION").read_text().strip(), "VERSION")


def check(root: Path) -> None:
    version = current(root)
    wrong = [place for place in find(root) if place.version != version]
    if wrong:
        lines = (
            f"  {place.file.relative_to(root)}:{place.line}: {place.what} is {place.version}"
            for place in wrong
        )
        raise ToolError(
            f"VERSION is {version}, but\n" + "\n".join(lines) + "\n"
            f"To correct them all: python3 hack/release version set {version}"
        )


def check_tag(root: Path, tag: str) -> None:
    """`tag` must be the tag of this tree's version."""
    check(root)
    if tag != f"v{current(root)}":
        raise ToolError(
            f"the tag is {tag}, but VERSION is {current(root)}: expected v{current(root)}"
        )


def write(root: Path, version: str) -> None:
    """Sets the version and keeps the previous version's charts for upgrade tests."""
    _valid(version, "version set")
    if version != current(root):
        charts.keep_released(root, current(root))
    (root / "VERSION").write_text(f"{version}\n")
    _write_places(root, version)


def _valid(version: str, where: str) -> str:
    if not FORM.fullmatch(version):
        raise ToolError(f"{where}: {version!r} is not a version like 1.2.3 or 1.2.3-rc.1")
    return version
