"""Ends what a test starts, with all that it started itself."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from support import PATIENCE


@contextmanager
def running(
    argv: list[str | Path], stdout: BinaryIO, stderr: BinaryIO
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which is asked to end; what is left of the group is killed."""
    process = subprocess.Popen(argv, stdout=stdout, stderr=stderr, process_group=0)
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=PATIENCE)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
