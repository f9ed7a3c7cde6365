"""Runs the whole platform from real parts and checks the data that the dashboards show.

Entry point of `python3 dashboards/live`, which runs every query of every dashboard on a platform
under load.
"""

import argparse
import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 (an older one gets a clear error)
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"dashboards/live needs Python 3.11 or newer; {sys.executable} is {found}")

repository = Path(__file__).resolve().parent.parent.parent
sys.path[:1] = [str(repository), str(repository / "hack")]

from dashboards.live import check
from tools.errors import ToolError


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        self.exit(64, f"{self.prog}: {message}\n")


Parser(
    prog="python3 dashboards/live",
    description="Runs every query of every dashboard on a platform under load and with faults. "
    "Exits with 1 if a query fails or returns no data.",
    epilog="Environment: BINARIES (a folder of built programs), "
    "TEST_PORTS (LOW-HIGH, the range of ports to use)",
).parse_args()
try:
    sys.exit(check.main())
except ToolError as error:
    sys.exit(f"dashboards/live: {error}")
except KeyboardInterrupt:
    sys.exit(130)
