"""Entry point of `python3 hack/local`."""

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 (older ones print this)
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"hack/local needs Python 3.11 or newer; {sys.executable} is {found}")

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from local.cli import main

sys.exit(main(sys.argv[1:]))
