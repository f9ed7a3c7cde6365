"""Entry point of `python3 dashboards/metrics`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from dashboards.metrics.cli import main

sys.exit(main(sys.argv[1:]))
