"""What the commands of the benchmarks share."""

import argparse
import os
from collections.abc import Callable, Collection
from pathlib import Path

from stack import REPOSITORY

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
