"""Builds images once more, elsewhere and from nothing, and compares what comes out."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images import build, read, stamp
from images.archive import Archive
from images.stamp import REPOSITORY
from tools.errors import ToolError


def verify(names: Sequence[str], arches: Sequence[str]) -> None:
    """Compares images of this clone with those of a new clone at another path.

    The new clone has no target folder, and its caches of tools, of Go and of Debian are empty.
    """
    if stamp.read().revision.endswith("-dirty"):
        raise ToolError("verify compares what is committed: commit or stash your changes first")
    with tempfile.TemporaryDirectory(prefix="corelane-verify-") as folder:
        here = build.build(names, arches=arches, out=Path(folder) / "here")
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
    there = read.read(folder / here.file.name)
    same = there.descriptor["digest"] == here.digest
    print(f"{here.file.name}: {here.digest}{' twice' if same else ''}")
    if not same:
        print(f"{here.file.name}: {there.descriptor['digest']} in the new clone")
        for path in differences(read.read(here.file), there):
            print(f"  differs: {path}")
    return same


def differences(ours: read.Contents, theirs: read.Contents) -> list[str]:
    """The files that are not in both, or not the same in both."""
    first, second = _files(ours), _files(theirs)
    every = sorted(first.keys() | second.keys())
    return [path for path in every if first.get(path) != second.get(path)]


def _files(contents: read.Contents) -> dict[str, str]:
    """The hash of each file, by architecture and path."""
    found = {}
    for manifest in contents.manifests:
        for number, _ in enumerate(manifest.content["layers"]):
            with contents.layer(number, manifest) as tar:
                for member in tar:
                    content = tar.extractfile(member).read() if member.isfile() else b""
                    content += repr(sorted(member.get_info().items(), key=str)).encode()
                    hashed = hashlib.sha256(content).hexdigest()
                    found[f"{manifest.arch} /{member.name}"] = hashed
    return found
