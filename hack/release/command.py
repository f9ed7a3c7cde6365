"""Runs the programs that a release is made with."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.errors import ToolError


def output(
    argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """What the program prints; when it fails, the error shows what it said."""
    result = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        said = "\n".join(f"    {line}" for line in (result.stdout + result.stderr).splitlines())
        words = " ".join([Path(argv[0]).name, *map(str, argv[1:])])
        raise ToolError(f"{words} failed (exit {result.returncode}):\n{said}")
    return result.stdout
