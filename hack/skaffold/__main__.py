"""Entry point of `python3 hack/skaffold`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from skaffold.cli import main

sys.exit(main(sys.argv[1:]))
