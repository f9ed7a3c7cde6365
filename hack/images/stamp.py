"""Reads the version, revision and time of images from the repository, never from the clock."""

import os
from dataclasses import dataclass
from pathlib import Path

from stack import REPOSITORY
from tools import command
from tools.errors import ToolError


@dataclass(frozen=True)
class Stamp:
    version: str
    revision: str
    created: int
    """Seconds since 1970."""


def read(repository: Path = REPOSITORY, version: str = "") -> Stamp:
    """The version comes from VERSION unless given."""
    version = version or (repository / "VERSION").read_text().strip()
    revision = _git(repository, "rev-parse", "HEAD")
    if _git(repository, "status", "--porcelain"):
        revision += "-dirty"
    return Stamp(version, revision, _created(repository))


def read_any(folder: Path, version: str) -> Stamp:
    """Accepts a folder without a clone or commit; the revision is then empty."""
    try:
        _git(folder, "rev-parse", "HEAD")
    except ToolError:
        return Stamp(version, "", _seconds(os.environ.get("SOURCE_DATE_EPOCH") or "0"))
    return read(folder, version)


def _created(repository: Path) -> int:
    """SOURCE_DATE_EPOCH if set (reproducible-builds.org), otherwise the time of the commit."""
    return _seconds(
        os.environ.get("SOURCE_DATE_EPOCH") or _git(repository, "log", "-1", "--format=%ct")
    )


def _seconds(text: str) -> int:
    if not text.isdecimal():
        raise ToolError(f"SOURCE_DATE_EPOCH={text!r}: expected a number of seconds since 1970")
    return int(text)


def _git(repository: Path, *arguments: str) -> str:
    return command.output(["git", "-C", repository, *arguments]).strip()
