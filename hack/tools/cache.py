"""The user's cache folder for tools, and its locks."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import progress


def root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "corelane"


def log(name: str) -> Path:
    folder = root() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.log"


def key(*parts: str | bytes) -> str:
    """A short key for content: a different lock file or flag results in a different key."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:12]


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Holds the lock against other threads and other runs."""
    folder = root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / name, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(name, "waits for another process that has the lock")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
