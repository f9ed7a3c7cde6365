"""Runs a command with its output in a log file."""

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
) -> None:
    """Runs `argv`; when it fails, the error is `failure` with the end of the log."""
    with open(log, "a") as output:
        print("$", *argv, file=output, flush=True)
        result = subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if result.returncode != 0:
        lines = "\n".join(f"    {line}" for line in progress.tail(log, TAIL))
        raise ToolError(f"{failure} (exit {result.returncode}); the end of {log}:\n{lines}")
