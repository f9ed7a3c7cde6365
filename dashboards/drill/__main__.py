"""Drills: makes each alert's condition true, and checks that the alert fires, notifies and
resolves.

Entry point of `python3 dashboards/drill`, which needs the tests' Python with PyYAML and pytest.
"""

import os
import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 (an older one gets a clear error)
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"dashboards/drill needs Python 3.11 or newer; {sys.executable} is {found}")

repository = Path(__file__).resolve().parent.parent.parent
folders = [repository, repository / "hack", repository / "tests"]
sys.path[:1] = [str(folder) for folder in folders]

from tools import resolve

python = resolve.tool("pytest").parent / "python"
if Path(sys.executable).parent != python.parent:
    os.execv(python, [str(python), str(Path(__file__).parent), *sys.argv[1:]])

from dashboards.drill.cli import main

sys.exit(main(sys.argv[1:]))
