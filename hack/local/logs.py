"""`logs`: the last lines of every process, or one of them followed."""

import os
from pathlib import Path

from tools import progress
from tools.errors import ToolError

LINES = 10


def main(run: Path, name: str | None) -> int:
    """Prints or follows logs; they stay readable after `down`."""
    logs = {log.stem: log for log in sorted(run.glob("*.log"))}
    if not logs:
        raise ToolError(f"no logs in {run}: run make up first")
    if name:
        if name not in logs:
            raise ToolError(f"unknown process {name!r}; use one of {', '.join(logs)}")
        os.execvp("tail", ["tail", "-n", "50", "-F", str(logs[name])])
    for process, log in logs.items():
        print(f"==> {process}")
        for line in progress.tail(log, LINES):
            print(f"    {line}")
    return 0
