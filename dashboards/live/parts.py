"""The processes of a stage: each can be stopped, killed, paused and started again."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tools import progress
from tools.errors import ToolError

PATIENCE = 180.0
"""Longest wait in seconds for a part."""

ENDING = 25.0
"""Seconds from SIGTERM to SIGKILL; more than a replica's drain.deadline."""

LINES = 8


class Part:
    """A named process with a log in the run folder."""

    def __init__(
        self,
        name: str,
        argv: Sequence[object],
        run: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str],
        **popen: object,
    ) -> None:
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = run / f"{name}.log"
        self.ready = ready
        self.ending = signal.SIGTERM
        self.ends = False
        """Whether it may end by itself, as a load does."""
        self._options = {"env": environment, "cwd": run, **popen}
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False
        """Whether its end was requested."""

    @property
    def pid(self) -> int:
        """Of the process; 0 while there is none."""
        return self._process.pid if self.running else 0

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def failed(self) -> bool:
        """Whether it has ended unexpectedly."""
        return self._process is not None and not self.running and not (self._asked or self.ends)

    def start(self, *more: object, wait: bool = True) -> None:
        """Starts it, this time with more flags; waits until it is ready."""
        if self.running:
            raise ToolError(f"{self.name} runs already")
        self._asked = False
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.argv, *map(str, more)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._options,
            )
        if wait:
            wait_for([self])

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal such as SIGSTOP and SIGCONT."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """Asks it to end; a replica drains."""
        self._asked = True
        if self.running:
            self._process.send_signal(self.ending)

    def kill(self) -> None:
        """Ends it at once, as a lost node does."""
        self._asked = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Asks it to end, and waits."""
        self.terminate()
        self.wait()

    def wait(self, patience: float = ENDING) -> int:
        """Waits for its end and kills it after the timeout. Returns the exit status."""
        if self._process is None:
            return 0
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode


def wait_for(parts: Iterable[Part], patience: float = PATIENCE) -> None:
    """Returns when all are ready; the error names every part that is not, with its log."""
    pending = list(parts)
    deadline = time.monotonic() + patience
    while pending := [part for part in pending if not part.ready()]:
        ended = [part for part in pending if not part.running]
        if ended or time.monotonic() > deadline:
            words = "ended right after the start" if ended else f"no answer within {patience:.0f} s"
            raise ToolError(describe(words, ended or pending))
        time.sleep(0.05)


def end(parts: Sequence[Part]) -> None:
    """Ends all, those that were started last first."""
    for part in reversed(parts):
        # A stopped process does not handle SIGTERM.
        if part.running:
            part.signal(signal.SIGCONT)
        part.terminate()
    for part in reversed(parts):
        part.wait()


def describe(words: str, parts: Iterable[Part]) -> str:
    """The failure of some parts, with the end of their logs."""
    parts = list(parts)
    lines = [f"{', '.join(part.name for part in parts)}: {words}"]
    for part in parts:
        lines.append(f"the end of {part.log}:")
        lines += [f"    {line}" for line in progress.tail(part.log, LINES)]
    return "\n".join(lines)
