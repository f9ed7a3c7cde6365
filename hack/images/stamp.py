"""Version, revision and time of images: from the repository, never from the clock."""

import os
from dataclasses import dataclass
from pathlib import Path

from tools import command
from tools.errors import ToolError

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Stamp:
    """What all images of one build share."""

    version: str
    revision: str
    created: int
    """Seconds since 1970."""


def read(repository: Path = REPOSITORY) -> Stamp:
    """The stamp of a clone as it is."""
    version = (repository / "VERSION").read_text().strip()
    revision = _git(repository, "rev-parse", "HEAD")
    if _git(repository, "status", "--porcelain"):
        revision += "-dirty"
    return Stamp(version, revision, _created(repository))


def _created(repository: Path) -> int:
    """SOURCE_DATE_EPOCH if it is set (reproducible-builds.org), else the time of the commit."""
    text = os.environ.get("SOURCE_DATE_EPOCH") or _git(repository, "log", "-1", "--format=%ct")
    if not text.isdecimal():
        raise ToolError(f"SOURCE_DATE_EPOCH={text!r}: expected a number of seconds since 1970")
    return int(text)


def _git(repository: Path, *arguments: str) -> str:
    return command.output(["git", "-C", repository, *arguments]).strip()
