"""The programs of this repository, built with checks for overflow; what images hold is tested on the cluster."""

import os
import subprocess
from functools import cache
from pathlib import Path

from stack import REPOSITORY


def program(name: str) -> Path:
    """A program of a service."""
    return _folder() / name


def example(name: str) -> Path:
    """An example of the library."""
    return _folder() / "examples" / name


@cache
def _folder() -> Path:
    """All at once, as `cargo test` has built them before.

    Programs alone would take fewer features of their dependencies, which would then be compiled once more.
    """
    argv = ["cargo", "build", "--locked", "--quiet", "--bins", "--examples"]
    subprocess.run(argv, cwd=REPOSITORY / "services", check=True)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return (REPOSITORY / "services" / target).resolve() / "debug"
