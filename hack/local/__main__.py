"""Entry point of `python3 hack/local`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tools import entry

entry.run("local")
