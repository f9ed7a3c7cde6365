"""Writes generated files, or shows how they differ from existing ones."""

import difflib
import os
import sys
from pathlib import Path

from stack import REPOSITORY

Files = dict[Path, str]


def write(files: Files) -> None:
    for file, wanted in files.items():
        if _read(file) != wanted:
            file.write_text(wanted)
            print(f"wrote {_name(file)}")


def report(files: Files, remedy: str) -> int:
    """Prints how the files differ and what to run; returns 1 if any file differs."""
    stale = {file: wanted for file, wanted in files.items() if _read(file) != wanted}
    for file, wanted in stale.items():
        show(_name(file), _read(file), wanted)
    if stale:
        names = ", ".join(_name(file) for file in stale)
        print(f"not up to date: {names}. Regenerate with: {remedy}", file=sys.stderr)
    return 1 if stale else 0


def show(name: str, before: str, now: str) -> None:
    lines = (text.splitlines(keepends=True) for text in (before, now))
    sys.stdout.writelines(difflib.unified_diff(*lines, name, f"{name} (generated)"))


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _name(file: Path) -> str:
    return os.path.relpath(file, REPOSITORY)
