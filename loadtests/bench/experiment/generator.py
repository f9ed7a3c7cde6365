"""Runs the load generator: connected and warmed up first, measured when told."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.errors import ToolError

PRIORITY = ["chrt", "--fifo", "1"]
"""Ahead of every ordinary thread (sched(7))."""


@dataclass(frozen=True)
class Place:
    """Where the generator runs."""

    cpus: list[int]
    first: bool = False
    """Ahead of every other process, where the system allows it: for an open loop, which leaves
    most of the CPU idle. In a closed one the kernel would stop it to let others run (sched(7),
    sched_rt_runtime_us)."""

    def argv(self) -> list[str]:
        """What its command begins with."""
        pinned = ["taskset", "-c", ",".join(map(str, self.cpus))]
        return [*pinned, *PRIORITY] if self.first and may_be_first() else pinned


def may_be_first() -> bool:
    """Whether real-time priority is allowed here."""
    if not shutil.which("chrt"):
        return False
    return subprocess.run([*PRIORITY, "true"], capture_output=True, check=False).returncode == 0


class Generator:
    """One run of the generator, as a context manager: ready when it is entered."""

    def __init__(self, program: Path, place: Place, mode: str, to: str, **options: object) -> None:
        flags = [_flag(name, value) for name, value in options.items()]
        self.argv = [*place.argv(), str(program), mode, "--to", to, *flags]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            if self._line() != "ready":
                raise ToolError(f"{self.argv} did not say that it is ready")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def measure(self, part: str = "") -> dict:
        """Runs the measured part; its result. The connections stay open until the end.

        Some modes take several parts, each described by a line.
        """
        self.tell(part)
        return self.answer()

    def tell(self, part: str) -> None:
        """Starts a part, while which the caller may do something else."""
        self._process.stdin.write(f"{part}\n")
        self._process.stdin.flush()

    def answer(self) -> dict:
        """Waits for the result of the last part."""
        return self._line()

    def go_first(self) -> None:
        """From now on ahead of every other process, like a place that is first."""
        if may_be_first():
            os.sched_setscheduler(self._process.pid, os.SCHED_FIFO, os.sched_param(1))

    def _line(self) -> object:
        line = self._process.stdout.readline()
        if not line:
            error = self._process.stderr.read().strip()
            raise ToolError(f"the load generator gave up: {error}\n  {' '.join(self.argv)}")
        return json.loads(line)

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()


def _flag(name: str, value: object) -> str:
    """An option of the command line; True is one without a value."""
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag}={value}"
