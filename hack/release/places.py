"""Every line of the repository that carries the version."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

WORKSPACES = ("services", "loadtests/bench")
"""The folders with a Cargo.lock."""

NEVER_RELEASED = "0.0.0"
"""The version of crates that have none."""

CHART_VERSION = re.compile(r'(?P<what>version|appVersion): *"?(?P<version>[^"\s]+)')
ITEM = re.compile(r'[- ] +(?P<what>version|repository): *"?(?P<version>[^"\s]+)')
CARGO_VERSION = re.compile(r'(?P<what>version) = "(?P<version>[^"]+)"')


@dataclass(frozen=True)
class Place:
    """A version in a file: `start` and `end` are its columns in the line `number`."""

    file: Path
    number: int
    start: int
    end: int
    what: str
    version: str


def find(root: Path) -> list[Place]:
    """Every place below `root`, in the order of files and lines."""
    places: list[Place] = []
    for file in sorted(root.glob("charts/*/Chart.yaml")):
        places += _some(file, _chart(file))
    for workspace in WORKSPACES:
        places += _manifest(root / workspace / "Cargo.toml")
        places += _some(root / workspace / "Cargo.lock", _lock(root / workspace / "Cargo.lock"))
    return places


def write(places: list[Place], version: str) -> None:
    """Puts `version` in all of them."""
    for file in {place.file for place in places}:
        lines = file.read_text().splitlines(keepends=True)
        for place in places:
            if place.file == file:
                line = lines[place.number]
                lines[place.number] = line[: place.start] + version + line[place.end :]
        file.write_text("".join(lines))


def _some(file: Path, places: Iterator[Place]) -> list[Place]:
    found = list(places)
    if not found:
        raise ToolError(f"{file}: no version found")
    return found


def _chart(file: Path) -> Iterator[Place]:
    """The chart's own two versions, and those of the dependencies that lie beside it."""
    block = ""
    item: dict[str, Place] = {}
    for number, line in enumerate(file.read_text().splitlines()):
        if key := re.match(r"\w+", line):
            block = key[0]
        if match := CHART_VERSION.match(line):
            yield _place(file, number, match)
        if block != "dependencies":
            continue
        if re.match(r" *- ", line):
            yield from _beside(item)
            item = {}
        if match := ITEM.search(line):
            item[match["what"]] = _place(file, number, match, "version of a dependency")
    yield from _beside(item)


def _beside(item: dict[str, Place]) -> Iterator[Place]:
    if "repository" in item and item["repository"].version.startswith("file://"):
        if "version" not in item:
            raise ToolError(f"{item['repository'].file}: a dependency has no version")
        yield item["version"]


def _manifest(file: Path) -> Iterator[Place]:
    """The version that the crates of a workspace share."""
    section = ""
    for number, line in enumerate(file.read_text().splitlines()):
        if line.startswith("["):
            section = line.strip()
        if section == "[workspace.package]" and (match := CARGO_VERSION.match(line)):
            yield _place(file, number, match)


def _lock(file: Path) -> Iterator[Place]:
    """The crates of this repository: those that a lock file gives no source."""
    own: Place | None = None
    for number, line in enumerate([*file.read_text().splitlines(), "[[package]]"]):
        if line == "[[package]]":
            if own and own.version != NEVER_RELEASED:
                yield own
            own = None
        elif line.startswith("name = "):
            name = line.split('"')[1]
        elif match := CARGO_VERSION.match(line):
            # The version of the lock's own format is no string, so this is a crate's.
            own = _place(file, number, match, f"version of {name}")
        elif line.startswith("source = "):
            own = None


def _place(file: Path, number: int, match: re.Match, what: str = "") -> Place:
    start, end = match.span("version")
    return Place(file, number, start, end, what or match["what"], match["version"])
