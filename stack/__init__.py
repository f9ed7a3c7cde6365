"""One home for everything that starts processes: what `make up`, tests, benchmarks and drills start, await and ask.

`process` starts and ends a program, `ports` draws free ports, `http` asks, `http_server` answers; each further module
is one kind of process. It imports nothing of this repository but hack/tools, which finds programs.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tools.errors import ToolError

REPOSITORY = Path(__file__).resolve().parent.parent

HOST = "127.0.0.1"
"""Where processes listen."""

SLOWER = float(os.environ.get("TEST_SLOWER", "1"))
"""How much longer tests wait than usual, and how much less they load: for emulated CPUs."""

PATIENCE = 60.0 * SLOWER
"""Longest wait in seconds; only something broken makes anyone wait this long."""

PAUSE = 0.02
"""Seconds between two looks."""

Found = TypeVar("Found")


def eventually(
    check: Callable[[], Found], what: str = "", *, patience: float = PATIENCE, pause: float = PAUSE
) -> Found:
    """Waits until `check` returns something true and returns it; the error names `what`.

    A longer `pause` leaves the CPUs to the awaited process where each check starts a process.
    """
    deadline = time.monotonic() + patience
    while not (found := check()):
        if time.monotonic() > deadline:
            raise ToolError(f"not within {patience:g} s: {what or check.__name__}")
        time.sleep(pause)
    return found


def in_time(check: Callable[[], object], patience: float = PATIENCE, pause: float = 0.05) -> bool:
    """Waits until `check` returns something true, and returns whether it did in time."""
    deadline = time.monotonic() + patience
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def becomes(read: Callable[[], object], wanted: object) -> None:
    """Waits until `read` returns the wanted value; the error shows the last value."""
    deadline = time.monotonic() + PATIENCE
    while (found := read()) != wanted:
        if time.monotonic() > deadline:
            raise ToolError(f"not within {PATIENCE:g} s: {wanted!r}; last {found!r}")
        time.sleep(PAUSE)
