"""What peers are built from their sources into: a folder of the cache, kept until these change."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from tools import cache, command, progress
from tools.errors import ToolError


def kept(name: str, sources: Iterable[Path], with_what: str, make: Callable[[Path], None]) -> Path:
    """The folder of `name` for these sources and this compiler; made if it is not there."""
    files = sorted(sources)
    content = [part for file in files for part in (file.name, file.read_bytes())]
    folder = cache.root() / "bench" / f"{name}-{cache.key(with_what, *content)}"
    with cache.lock(f"bench-{name}"):
        if not folder.exists():
            fresh = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            make(fresh)
            os.rename(fresh, folder)
    return folder


def run(
    name: str, argv: list[str], folder: Path, environment: dict[str, str] | None = None
) -> None:
    """Runs a build in a folder, saying what it does."""
    log = cache.log(f"bench-{name}")
    log.unlink(missing_ok=True)
    with progress.step("build", f"{name}: {' '.join(argv[:2])}", log):
        command.run(argv, log, failure=f"{name}: no build", cwd=folder, env=environment)


def version_of(argv: list[str], what_for: str) -> str:
    """What a compiler that must be on PATH says its version is."""
    if not shutil.which(argv[0]):
        raise ToolError(f"{argv[0]} is not on PATH: it builds {what_for}")
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[0]
