"""Entry point of `python3 loadtests/bench`."""

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 (for the error message)
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"loadtests/bench needs Python 3.11 or newer; {sys.executable} is {found}")

repository = Path(__file__).resolve().parent.parent.parent
sys.path[:1] = [str(repository), str(repository / "hack")]

from loadtests.bench.cli import main

sys.exit(main(sys.argv[1:]))
