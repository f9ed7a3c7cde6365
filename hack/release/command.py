"""Runs the programs that make a release."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.errors import ToolError


def output(
    argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """The program's stdout; if it fails, the error shows its whole output."""
    return _run(argv, cwd, env).stdout


def said(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> str:
    """The program's stdout and stderr."""
    result = _run(argv, None, env)
    return result.stdout + result.stderr


def _run(
    argv: Sequence[str | Path], cwd: Path | None, env: Mapping[str, str] | None
) -> subprocess.CompletedProcess[str]:
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
        lines = "\n".join(f"    {line}" for line in (result.stdout + result.stderr).splitlines())
        words = " ".join([Path(argv[0]).name, *map(str, argv[1:])])
        raise ToolError(f"{words} failed (exit {result.returncode}):\n{lines}")
    return result
