"""A process with a log, which can be started, awaited until it is ready, stopped, killed, paused
and restarted.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from stack import PAUSE, SLOWER, eventually
from tools import progress
from tools.errors import ToolError

START = 180.0 * SLOWER
"""Maximum seconds until a process is ready."""

ENDING = 25.0
"""Seconds from SIGTERM to SIGKILL; more than a replica's drain.deadline."""

LINES = 20


def without_proxies() -> dict[str, str]:
    """This environment without proxies, because loopback needs no proxies."""
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}


class Process:
    def __init__(
        self,
        name: str,
        argv: Sequence[object],
        folder: Path,
        ready: Callable[[], object] = lambda: True,
        environment: Mapping[str, str] | None = None,
        *,
        output: Path | None = None,
        ending: signal.Signals = signal.SIGTERM,
        ends: bool = False,
        **popen: object,
    ) -> None:
        """The process runs in the folder of its log. `output` is a file for its stdout, which
        otherwise also goes to the log.

        `ending` is the signal that asks the process to exit. With `ends`, the process may exit by
        itself, as a load does. The other arguments go to Popen.
        """
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = folder / f"{name}.log"
        self.ready = ready
        self.ends = ends
        self._output = output
        self._ending = ending
        self._options = {
            "env": environment or without_proxies(),
            "cwd": folder,
            "stdin": subprocess.DEVNULL,
            **popen,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._group = 0
        """The process group, as long as any of its processes may be running."""
        self._asked = False

    @property
    def pid(self) -> int:
        """0 while there is no process."""
        return self._process.pid if self.running else 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status once the process has exited; negative for a signal."""
        return None if self._process is None else self._process.poll()

    @property
    def failed(self) -> bool:
        return self._process is not None and not self.running and not (self._asked or self.ends)

    def start(self, *more: object, wait: bool = True) -> Self:
        """`more` are additional flags for this start."""
        if self.running:
            raise ToolError(f"{self.name} runs already")
        self._asked = False
        if self._process is None:
            # Ignore the output of an earlier process with this name.
            self.log.write_bytes(b"")
        with self.log.open("ab") as log, (self._output or self.log).open("ab") as output:
            options = {"stdout": output, "stderr": log, "process_group": 0, **self._options}
            self._process = subprocess.Popen([*self.argv, *map(str, more)], **options)
        self._group = self._process.pid
        if wait:
            wait_for([self])
        return self

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def freeze(self) -> None:
        """Stops the process, and waits until none of its threads is running."""
        self.signal(signal.SIGSTOP)
        # proc(5): the state follows the name, which is in brackets.
        eventually(
            lambda: all(") T " in stat for _, stat in self._tasks("stat")), "stopped threads"
        )

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def threads(self) -> dict[str, Path]:
        """Thread folders in /proc by thread name; threads may share a name."""
        return {name.strip(): task for task, name in self._tasks("comm")}

    def _tasks(self, file: str) -> Iterator[tuple[Path, str]]:
        """Yields a file's content for each living thread. Threads for blocking calls exit when they
        are idle.
        """
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield task, (task / file).read_text()

    def terminate(self) -> None:
        """Signals the process to exit; a replica then drains."""
        self._asked = True
        if self.running:
            # A stopped process handles no other signal.
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(self._ending)

    def kill(self) -> None:
        """Kills the process and its group, as the loss of a node would."""
        self._asked = True
        if self._group:
            with suppress(ProcessLookupError):
                os.killpg(self._group, signal.SIGKILL)
            self._group = 0
            self._process.wait()

    def stop(self) -> None:
        self.terminate()
        self.wait()

    def wait(self, patience: float = ENDING) -> int:
        """Kills the process and its group after the timeout; returns the exit status."""
        if self._process is None:
            return 0
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self.kill()
        return self._process.returncode


@contextmanager
def running(
    name: str, argv: Sequence[object], folder: Path, *more: object, **options: object
) -> Iterator[Process]:
    """Yields a ready process that is stopped with the context; the arguments go to `Process`."""
    process = Process(name, argv, folder, *more, **options)
    try:
        yield process.start()
    finally:
        process.stop()


def detached(
    argv: Sequence[object], log: Path, environment: Mapping[str, str], **options: object
) -> subprocess.Popen[bytes]:
    """Starts a process in a separate session, so that it outlives this process. Later, it can be
    found only by its pid or a mark.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(word) for word in argv],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **options,
        )


MOST_FILES = 1 << 20


def raise_open_files() -> None:
    """The limit is usually 1024; children inherit the new one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def wait_for(processes: Iterable[Process], patience: float = START) -> None:
    """The error names each process that is not ready, with the end of its log."""
    pending = list(processes)
    deadline = time.monotonic() + patience
    while pending := [each for each in pending if not each.ready()]:
        ended = [each for each in pending if not each.running]
        if ended or time.monotonic() > deadline:
            words = "ended right after the start" if ended else f"no answer within {patience:.0f} s"
            raise ToolError(describe(words, ended or pending))
        time.sleep(PAUSE)


def end(processes: Sequence[Process]) -> None:
    """Stops all processes concurrently, starting with the last one started."""
    for each in reversed(processes):
        each.terminate()
    for each in reversed(processes):
        each.wait()


def describe(words: str, processes: Iterable[Process]) -> str:
    processes = list(processes)
    lines = [f"{', '.join(each.name for each in processes)}: {words}"]
    for each in processes:
        lines.append(f"the end of {each.log}:")
        lines += [f"    {line}" for line in progress.tail(each.log, LINES)]
    return "\n".join(lines)
