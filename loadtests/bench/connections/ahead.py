"""Runs what is measured ahead of other processes, on a machine that is not quiet."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.errors import ToolError

AUTOGROUP = Path("/proc/self/autogroup")
"""The session's, as `/autogroup-7 nice 0`: where there is one, a process's own nice value counts only within it
(sched(7))."""

HIGHEST = "-20"


@contextmanager
def ahead() -> Iterator[None]:
    """This session has the highest of the usual priorities meanwhile."""
    try:
        before = AUTOGROUP.read_text().split()[-1]
        AUTOGROUP.write_text(HIGHEST)
    except OSError as error:
        raise ToolError(f"--ahead: this session may not run ahead of others: {error}") from None
    try:
        yield
    finally:
        AUTOGROUP.write_text(before)
