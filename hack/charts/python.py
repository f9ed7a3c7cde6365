"""Runs the scripts of this folder that need PyYAML with the Python that has it: pytest's."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from charts.tree import REPOSITORY
from tools import resolve
from tools.errors import ToolError


def run(script: str, arguments: Sequence[str | Path], text: str = "") -> str:
    """The output of a script; what it says when it fails is the error."""
    python = resolve.ensure(["pytest"])["pytest"].parent / "python"
    argv = [python, Path(__file__).with_name(script), *arguments]
    result = subprocess.run(
        argv, cwd=REPOSITORY, input=text, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise ToolError(result.stderr.strip())
    return result.stdout
