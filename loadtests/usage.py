"""Shared by the commands: parsers for option values, and usage errors, which are one line with an
exit status.
"""

import argparse
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NoReturn

from stack import REPOSITORY
from tools.errors import ToolError


class UsageError(ToolError):
    """A command-line error."""


class Parser(argparse.ArgumentParser):
    """Prints an error on one line, and exits with EX_USAGE (64, sysexits(3))."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(os.EX_USAGE)


OUT = REPOSITORY / "loadtests" / "out"


def positive(text: str) -> int:
    """Parses a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number above 0")
    return int(text)


def program(text: str) -> Path:
    if not (os.path.isfile(text) and os.access(text, os.X_OK)):
        raise argparse.ArgumentTypeError(f"{text}: no such program")
    return Path(text).resolve()


def some_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """Parses names separated by commas; returns them in the order of the known names."""

    def parsed(text: str) -> tuple[str, ...]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}: there are {', '.join(known)}")
        return tuple(name for name in known if name in chosen)

    return parsed
