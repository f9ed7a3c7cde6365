"""Entry point of `python3 hack/charts`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from charts.cli import main

sys.exit(main(sys.argv[1:]))
