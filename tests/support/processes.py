"""The processes of a test: programs of the services, ports, and the end of what a test starts."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from loadtests.bench.free_ports import free_ports
from support import PATIENCE, REPOSITORY

__all__ = ["free_ports"]


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


def bench(name: str, out: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a benchmark to its end; the caller judges the result."""
    argv = [sys.executable, "loadtests/bench", name, "--out", out, *arguments]
    argv = [str(argument) for argument in argv]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def program(name: str) -> Path:
    """A build with checks for overflow; what images hold is tested on the cluster."""
    return _folder() / name


def example(name: str) -> Path:
    """An example of the library."""
    return _folder() / "examples" / name


@cache
def _folder() -> Path:
    """All at once, as `cargo test` has built them before.

    Programs alone would take fewer features of their dependencies, which would then be compiled once more.
    """
    argv = ["cargo", "build", "--locked", "--quiet", "--bins", "--examples"]
    subprocess.run(argv, cwd=REPOSITORY / "services", check=True)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return (REPOSITORY / "services" / target).resolve() / "debug"
