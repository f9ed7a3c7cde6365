"""Entry point of `python3 hack/prose [PATH...]`: checks the English of files and folders."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from prose.check import main

sys.exit(main(sys.argv[1:]))
