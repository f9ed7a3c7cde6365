"""What tests of running processes share."""

import os
import time
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent

SLOWER = float(os.environ.get("TEST_SLOWER", "1"))
"""How much longer tests wait than usual, and how much less they load: for emulated CPUs."""

PATIENCE = 20.0 * SLOWER
"""Longest wait in seconds; only something broken makes a test wait this long."""


def eventually(
    check: Callable[[], object],
    what: str = "",
    *,
    patience: float = PATIENCE,
    pause: float = 0.02,
) -> None:
    """Waits until `check` gives something true; `what` is waited for, says the error.

    A `pause` leaves the CPUs to what is waited for, where asking takes a process of its own.
    """
    deadline = time.monotonic() + patience
    while not check():
        assert time.monotonic() < deadline, f"not within {patience} s: {what or check.__name__}"
        time.sleep(pause)


def becomes(read: Callable[[], object], wanted: object) -> None:
    """Waits until `read` gives what is wanted; the error shows what it gave last."""
    deadline = time.monotonic() + PATIENCE
    while (found := read()) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == wanted
