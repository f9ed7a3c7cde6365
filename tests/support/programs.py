"""The programs of `services`, as tests run them."""

import os
import subprocess
from functools import cache
from pathlib import Path

from support import REPOSITORY


def program(name: str) -> Path:
    """A build with checks for overflow; what images hold is tested on the cluster."""
    return _folder() / name


@cache
def _folder() -> Path:
    """All at once, as the tests of Rust have built them before.

    Alone each would take fewer features of what it depends on, and that would be built once more.
    """
    argv = ["cargo", "build", "--locked", "--quiet", "--workspace", "--bins"]
    subprocess.run(argv, cwd=REPOSITORY / "services", check=True)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return (REPOSITORY / "services" / target).resolve() / "debug"
