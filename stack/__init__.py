"""Everything that starts processes: used by `make up`, tests, benchmarks and drills.

`process` starts and stops a program, `ports` draws free ports, `http` sends requests, and
`http_server` answers them; each other module is one kind of process. From this repository, the
package imports only hack/tools, which finds programs.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tools.errors import ToolError

REPOSITORY = Path(__file__).resolve().parent.parent

HOST = "127.0.0.1"

SLOWER = float(os.environ.get("TEST_SLOWER", "1"))
"""Slowdown factor of emulated CPUs, for longer timeouts and lower load."""

PATIENCE = 60.0 * SLOWER
"""Maximum wait in seconds; only a defect makes a test wait this long."""

PAUSE = 0.02

Found = TypeVar("Found")


def eventually(
    check: Callable[[], Found], what: str = "", *, patience: float = PATIENCE, pause: float = PAUSE
) -> Found:
    """Waits until `check` returns something true and returns it; the error names `what`.

    If each check starts a process, a longer `pause` leaves the CPUs to the awaited process.
    """
    deadline = time.monotonic() + patience
    while not (found := check()):
        if time.monotonic() > deadline:
            raise ToolError(f"not within {patience:g} s: {what or check.__name__}")
        time.sleep(pause)
    return found


def in_time(check: Callable[[], object], patience: float = PATIENCE, pause: float = 0.05) -> bool:
    """Returns whether `check` returned something true in time."""
    deadline = time.monotonic() + patience
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def becomes(read: Callable[[], object], wanted: object) -> None:
    """Waits until `read` returns the expected value; the error shows the last one."""
    deadline = time.monotonic() + PATIENCE
    while (found := read()) != wanted:
        if time.monotonic() > deadline:
            raise ToolError(f"not within {PATIENCE:g} s: {wanted!r}; last {found!r}")
        time.sleep(PAUSE)
