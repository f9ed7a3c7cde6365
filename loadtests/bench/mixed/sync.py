"""What it costs to make bytes durable where the databases are: the floor of a save."""

import os
import tempfile
import time
from pathlib import Path

from postgres import home

SYNCS = 100
BYTES = 6_000


def measure() -> dict[str, float | str]:
    """The time of a write and fdatasync(2) of one document's size, alone."""
    with tempfile.TemporaryFile(dir=home.ELSEWHERE, buffering=0) as file:
        times = sorted(_once(file.fileno()) for _ in range(SYNCS))
    return {
        "file_system": _file_system(home.ELSEWHERE),
        "p50_ms": 1e3 * times[SYNCS // 2],
        "p99_ms": 1e3 * times[SYNCS * 99 // 100],
    }


def _once(descriptor: int) -> float:
    begun = time.monotonic()
    os.write(descriptor, b"x" * BYTES)
    os.fdatasync(descriptor)
    return time.monotonic() - begun


def _file_system(folder: Path) -> str:
    """The type of the file system of a folder (proc_pid_mounts(5)): that of the longest mount point above it."""
    with open("/proc/self/mounts") as mounts:
        found = [line.split()[1:3] for line in mounts]
    above = [
        (len(point), kind)
        for point, kind in found
        if os.path.commonpath([point, os.path.realpath(folder)]) == point
    ]
    return max(above)[1]
