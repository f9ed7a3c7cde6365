"""The version: the file VERSION has it, other files repeat it."""

import re
from pathlib import Path

from release import charts, places
from tools.errors import ToolError

# Semantic Versioning 2.0.0 without build metadata: a tag of an image cannot hold its "+".
NUMBER = r"(0|[1-9]\d*)"
FORM = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")


def current(root: Path) -> str:
    """The version in VERSION."""
    return _valid((root / "VERSION").read_text().strip(), "VERSION")


def check(root: Path) -> None:
    """Fails if a file has another version than VERSION."""
    version = current(root)
    wrong = [place for place in places.find(root) if place.version != version]
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
    """Fails unless `tag` is the tag of this tree's version."""
    check(root)
    if tag != f"v{current(root)}":
        raise ToolError(
            f"the tag is {tag}, but VERSION is {current(root)}: expected v{current(root)}"
        )


def write(root: Path, version: str) -> None:
    """Sets the version; keeps the charts of the outgoing one for upgrade tests."""
    _valid(version, "version set")
    if version != current(root):
        charts.keep_released(root, current(root))
    (root / "VERSION").write_text(f"{version}\n")
    places.write(root, version)


def _valid(version: str, where: str) -> str:
    if not FORM.fullmatch(version):
        raise ToolError(f"{where}: {version!r} is not a version like 1.2.3 or 1.2.3-rc.1")
    return version
