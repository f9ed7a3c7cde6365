"""Runs commands: slow commands with their output in a log file, and other commands for their
output."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools import progress
from tools.errors import ToolError

TAIL = 15


def run(
    argv: Sequence[str | Path],
    log: Path,
    *,
    failure: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    lines: int = 0,
) -> str:
    """On failure, the error is `failure` with the end of the log.

    With a number of `lines` for the error, the log contains only the command's stderr, and `run`
    returns its stdout.
    """
    with open(log, "a") as output:
        print("$", *argv, file=output, flush=True)
        result = subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if lines else output,
            stderr=output,
            text=True,
            check=False,
        )
    if result.returncode != 0:
        end = "\n".join(f"    {line}" for line in progress.tail(log, lines or TAIL))
        raise ToolError(f"{failure} (exit {result.returncode}); the end of {log}:\n{end}")
    return result.stdout or ""


def output(
    argv: Sequence[object],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> str:
    """On failure, the error shows the complete output."""
    return _captured(argv, cwd, env, stdin).stdout


def said(argv: Sequence[object]) -> str:
    result = _captured(argv, None, None, "")
    return result.stdout + result.stderr


def _captured(
    argv: Sequence[object], cwd: Path | None, env: Mapping[str, str] | None, stdin: str
) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in argv]
    try:
        result = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ToolError(f"{words[0]} is not on PATH") from None
    if result.returncode != 0:
        lines = "\n".join(f"    {line}" for line in (result.stdout + result.stderr).splitlines())
        words[0] = Path(words[0]).name
        raise ToolError(f"{' '.join(words)} failed (exit {result.returncode}):\n{lines}")
    return result
