"""Keeps two commands from changing one instance at the same time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.errors import ToolError


@contextmanager
def lock(run: Path) -> Iterator[None]:
    """Holds the instance; another `up` or `down` of it is refused meanwhile."""
    run.mkdir(parents=True, exist_ok=True)
    with open(run / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(
                f"another up or down of instance {run.name} is at work: wait for it"
            ) from None
        yield
