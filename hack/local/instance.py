"""A lock against two commands that change one instance at the same time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.errors import ToolError


@contextmanager
def lock(run: Path) -> Iterator[None]:
    """Locks the instance: another `up` or `down` of it fails meanwhile."""
    run.mkdir(parents=True, exist_ok=True)
    with open(run / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(
                f"another command of instance {run.name} is running: wait until it ends"
            ) from None
        yield
