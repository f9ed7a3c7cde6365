"""The environment of an instance's processes."""

import os
import re
import subprocess
from pathlib import Path

from local.processes import MARK
from tools import progress


def make(run: Path, server: Path) -> dict[str, str]:
    """This environment with the mark, without variables that the server would reject.

    The server rejects CORELANE_ variables that are not its settings, but the user may have set one
    for another purpose. Its help lists the valid ones.
    """
    usage = subprocess.run([server, "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"CORELANE_[A-Z0-9_]+", usage.stdout))
    unknown = {name for name in os.environ if name.startswith("CORELANE_")} - known
    if unknown:
        progress.say("server", f"ignores {', '.join(sorted(unknown))}: not settings of the server")
    kept = {name: value for name, value in os.environ.items() if name not in unknown}
    return {**kept, MARK: str(run)}
