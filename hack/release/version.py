"""The version: the file VERSION says it, every other place repeats it."""

import re
from pathlib import Path

from release import charts, places
from tools.errors import ToolError

# Semantic Versioning 2.0.0 without build metadata: a tag of an image cannot hold its "+".
NUMBER = r"(0|[1-9]\d*)"
FORM = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")


def current(root: Path) -> str:
    """What VERSION says."""
    return _valid((root / "VERSION").read_text().strip(), "VERSION")


def check(root: Path) -> None:
    """Fails where a file does not say what VERSION says."""
    version = current(root)
    wrong = [place for place in places.find(root) if place.version != version]
    if wrong:
        lines = (
            f"  {place.file.relative_to(root)}:{place.number + 1}: {place.what} is {place.version}"
            for place in wrong
        )
        raise ToolError(
            f"VERSION says {version}, but\n" + "\n".join(lines) + "\n"
            f"python3 hack/release version set {version} writes them all"
        )


def check_tag(root: Path, tag: str) -> None:
    """Fails unless a release of this tree is to be tagged `tag`."""
    check(root)
    if tag != f"v{current(root)}":
        raise ToolError(
            f"the tag is {tag}, but VERSION says {current(root)}: expected v{current(root)}"
        )


def write(root: Path, version: str) -> None:
    """Makes `version` the version; keeps the charts of the outgoing one for upgrade tests."""
    _valid(version, "version set")
    found = places.find(root)
    if version != current(root):
        charts.keep_released(root, current(root))
    (root / "VERSION").write_text(f"{version}\n")
    places.write(found, version)


def _valid(version: str, where: str) -> str:
    if not FORM.fullmatch(version):
        raise ToolError(f"{where}: {version!r} is not a version like 1.2.3 or 1.2.3-rc.1")
    return version
