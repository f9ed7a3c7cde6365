"""Keeps the tree's cgroups at the CPU time that the processes really have had, as a kernel does."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dashboards.live.platform import Platform

EVERY = 1.0


@contextmanager
def accounting(platform: Platform) -> Iterator[None]:
    """Does so until the end."""
    ended = threading.Event()

    def account() -> None:
        while not ended.wait(EVERY):
            for container in list(platform.containers.values()):
                # Between two lives of a process there is none to read, and one that ends while its
                # file is open is no such process (ESRCH).
                with suppress(FileNotFoundError, ProcessLookupError):
                    platform.tree.use(container, cpu_time(container.pid))

    thread = threading.Thread(target=account, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def cpu_time(pid: int) -> int:
    """Nanoseconds of CPU time of a process: user and system, fields 14 and 15 of proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
