"""Entry point of `python3 hack/charts`."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

hack = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(hack), str(hack.parent)]

from tools import resolve

if not find_spec("yaml"):
    # pytest sets this variable.
    python = resolve.tool("pytest").with_name("python")
    os.execv(python, [python, *sys.argv])

from charts.cli import main

sys.exit(main(sys.argv[1:]))
