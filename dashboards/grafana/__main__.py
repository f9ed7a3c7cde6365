"""Entry point of `python3 hack/tools run dashboards-python dashboards/grafana`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from grafana.cli import main

sys.exit(main(sys.argv[1:]))
