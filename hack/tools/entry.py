"""Starts the commands of hack: `python3 hack/NAME` runs `main` of NAME/cli.py."""

import importlib
import sys
from pathlib import Path


def run(name: str) -> None:
    """Older Python versions can load this file too."""
    if sys.version_info < (3, 11):  # noqa: UP036
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"hack/{name} needs Python 3.11 or newer; {sys.executable} is {found}")
    # The `stack` package: its folder follows hack on the path.
    sys.path.insert(1, str(Path(__file__).resolve().parent.parent.parent))
    sys.exit(importlib.import_module(f"{name}.cli").main(sys.argv[1:]))
