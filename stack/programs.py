"""This repository's programs, built with overflow checks; cluster tests cover the programs in
images.
"""

import os
import subprocess
from functools import cache
from pathlib import Path

from stack import PATIENCE, REPOSITORY
from tools.errors import ToolError


def program(name: str) -> Path:
    return _folder() / name


def run(name: str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to completion; the caller checks the result."""
    return subprocess.run(
        [program(name), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def example(name: str) -> Path:
    return _folder() / "examples" / name


@cache
def _folder() -> Path:
    """Returns BINARIES if it is set; otherwise builds the programs.

    Builds all programs together, as an earlier `cargo test` did: a build without the tests would
    use fewer features of the dependencies and compile them again.
    """
    if folder := os.environ.get("BINARIES"):
        return Path(folder).resolve()
    argv = ["cargo", "build", "--locked", "--quiet", "--bins", "--examples"]
    if subprocess.run(argv, cwd=REPOSITORY / "services", check=False).returncode != 0:
        raise ToolError("the services do not build: see cargo's output above")
    target = os.environ.get("CARGO_TARGET_DIR") or "target"
    return (REPOSITORY / "services" / target).resolve() / "debug"
