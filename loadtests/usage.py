"""What commands share: the values of options, and bad usage, which is one line and an exit status."""

import argparse
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NoReturn

from stack import REPOSITORY
from tools.errors import ToolError


class UsageError(ToolError):
    """The command line is wrong."""


class Parser(argparse.ArgumentParser):
    """Says in one line what was wrong, and ends with EX_USAGE (64) of sysexits(3)."""

    def error(self, message: str) -> NoReturn:
        """Called by argparse."""
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(os.EX_USAGE)


OUT = REPOSITORY / "loadtests" / "out"


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number above 0")
    return int(text)


def program(text: str) -> Path:
    """A file that can be run."""
    if not (os.path.isfile(text) and os.access(text, os.X_OK)):
        raise argparse.ArgumentTypeError(f"{text}: no such program")
    return Path(text).resolve()


def some_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """Names with commas between, in the order in which they are known."""

    def parsed(text: str) -> tuple[str, ...]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}: there are {', '.join(known)}")
        return tuple(name for name in known if name in chosen)

    return parsed
