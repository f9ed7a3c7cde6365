"""Builds images again, at another path and without caches, and compares the archives."""

import filecmp
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images import archive, build, stamp
from images.archive import Archive
from images.build import Options
from stack import REPOSITORY
from tools.errors import ToolError


def verify(names: Sequence[str], arches: Sequence[str]) -> None:
    """Compares this clone's images with the images of a new clone at another path.

    The new clone has no target folder, and its caches for tools, Go and Debian packages are empty.
    """
    if stamp.read().revision.endswith("-dirty"):
        raise ToolError("verify compares what is committed: commit or stash your changes first")
    with tempfile.TemporaryDirectory(prefix="corelane-verify-") as folder:
        here = build.build(names, Options(arches=arches, out=Path(folder) / "here"))
        _build_in_clone(Path(folder), names, arches)
        different = [each for each in here if not _same(each, Path(folder) / "there")]
    if different:
        names = [each.file.name for each in different]
        raise ToolError(f"not the same in a new clone: {', '.join(names)}")


def _build_in_clone(folder: Path, names: Sequence[str], arches: Sequence[str]) -> None:
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", REPOSITORY, clone], check=True)
    argv = [sys.executable, "hack/images", "build", *names, "--out", str(folder / "there")]
    argv += ["--arch", ",".join(arches)] if arches else []
    caches = {"XDG_CACHE_HOME": str(folder / "cache"), "GOCACHE": str(folder / "go")}
    result = subprocess.run(argv, cwd=clone, env={**os.environ, **caches}, check=False)
    if result.returncode != 0:
        raise ToolError("the new clone could not build its images")


def _same(here: Archive, folder: Path) -> bool:
    there = folder / here.file.name
    same = filecmp.cmp(here.file, there, shallow=False)
    print(f"{here.file.name}: {here.digest}, {'identical' if same else 'differs'} in the new clone")
    for path in [] if same else differences(here.file, there):
        print(f"  differs: {path}")
    return same


def differences(ours: Path, theirs: Path) -> list[str]:
    """Files that differ, or that only one archive contains."""
    first, second = _files(ours), _files(theirs)
    every = sorted(first.keys() | second.keys())
    return [path for path in every if first.get(path) != second.get(path)]


def _files(file: Path) -> dict[str, str]:
    found = {}
    for layer in archive.layers(file):
        for member in layer:
            content = layer.extractfile(member).read() if member.isfile() else b""
            content += repr(sorted(member.get_info().items(), key=str)).encode()
            found[f"/{member.name}"] = hashlib.sha256(content).hexdigest()
    return found
