"""The programs of this repository, built with checks for overflow; what images hold is tested on the cluster."""

import os
import subprocess
from functools import cache
from pathlib import Path

from stack import PATIENCE, REPOSITORY
from tools.errors import ToolError


def program(name: str) -> Path:
    """A program of a service."""
    return _folder() / name


def run(name: str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; the caller judges the result."""
    return subprocess.run(
        [program(name), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def example(name: str) -> Path:
    """An example of the library."""
    return _folder() / "examples" / name


@cache
def _folder() -> Path:
    """BINARIES is a folder of built programs, instead of a build.

    All at once, as `cargo test` has built them before: programs alone would take fewer features of their dependencies,
    which would then be compiled once more.
    """
    if folder := os.environ.get("BINARIES"):
        return Path(folder).resolve()
    argv = ["cargo", "build", "--locked", "--quiet", "--bins", "--examples"]
    if subprocess.run(argv, cwd=REPOSITORY / "services", check=False).returncode != 0:
        raise ToolError("the services do not build: see cargo's output above")
    target = os.environ.get("CARGO_TARGET_DIR") or "target"
    return (REPOSITORY / "services" / target).resolve() / "debug"
