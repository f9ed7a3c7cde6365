"""What the commands of the benchmarks share."""

import argparse
import os
from collections.abc import Callable, Collection
from pathlib import Path

from local.settings import REPOSITORY

RESULTS = REPOSITORY / "docs" / "results"
OUT = REPOSITORY / "loadtests" / "out"


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Where the results go."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where the results go; default: docs/results for everything in all rounds, else loadtests/out",
    )


def add_builds(parser: argparse.ArgumentParser) -> None:
    """What is measured, and how it is built."""
    parser.add_argument(
        "--server", type=Path, metavar="PROGRAM", help="another build of corelane-server"
    )
    parser.add_argument(
        "--profile", default="release", help="cargo's profile of all builds; default: release"
    )


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
