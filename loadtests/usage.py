"""Bad usage of a command: one line, and the exit status for it."""

import argparse
import os
import sys
from typing import NoReturn

from tools.errors import ToolError


class UsageError(ToolError):
    """The command line is wrong."""


class Parser(argparse.ArgumentParser):
    """Says in one line what was wrong, and ends with EX_USAGE (64) of sysexits(3)."""

    def error(self, message: str) -> NoReturn:
        """Called by argparse."""
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(os.EX_USAGE)
