"""What tests of running processes share."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")

REPOSITORY = Path(__file__).resolve().parent.parent.parent

SLOWER = float(os.environ.get("TEST_SLOWER", "1"))
"""How much longer tests wait than usual, and how much less they load: for emulated CPUs."""

PATIENCE = 60.0 * SLOWER
"""Longest wait in seconds; only something broken makes a test wait this long."""


def eventually(
    check: Callable[[], Found],
    what: str = "",
    *,
    patience: float = PATIENCE,
    pause: float = 0.02,
) -> Found:
    """Waits until `check` returns something true and returns it; the error names `what`.

    A longer `pause` leaves the CPUs to the awaited process where each check starts a process.
    """
    deadline = time.monotonic() + patience
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {patience} s: {what or check.__name__}"
        time.sleep(pause)
    return found


def becomes(read: Callable[[], object], wanted: object) -> None:
    """Waits until `read` gives what is wanted; the error shows what it gave last."""
    deadline = time.monotonic() + PATIENCE
    while (found := read()) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == wanted
