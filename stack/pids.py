"""Processes by pid, as /proc shows them, including processes of other commands."""

import fcntl
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.errors import ToolError


def every() -> list[int]:
    """Returns every pid of the machine."""
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def find(mark: str, value: object) -> list[int]:
    """The pids of all living processes with this variable, which children inherit."""
    return [pid for pid in every() if _marked(pid, mark, value)]


def environment(pid: int) -> dict[str, str]:
    """Returns the variables with which a process was started; empty if that cannot be read."""
    pairs = (os.fsdecode(pair) for pair in _environment(pid) if b"=" in pair)
    return dict(pair.split("=", 1) for pair in pairs)


def _environment(pid: int) -> list[bytes]:
    try:
        # The file is empty for a zombie, so a process that only waits to be reaped does not count.
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _marked(pid: int, mark: str, value: object) -> bool:
    return os.fsencode(f"{mark}={value}") in _environment(pid)


def send(pid: int, number: signal.Signals, mark: str, value: object) -> None:
    """Signals a process if it still has the mark; a pid may have a new owner."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if _marked(pid, mark, value):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def kill(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Signals processes that still exist."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _stat(pid: int) -> list[str]:
    """Returns the fields after the name in /proc/PID/stat (proc(5)): the state, the parent and so on. Empty
    when the process is gone.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def state(pid: int) -> str:
    """The state of a process, such as T for stopped; X if it is gone."""
    return (_stat(pid) or "X")[0]


def started(pid: int) -> str:
    """The start time of a running process, in ticks since boot, or ""."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def alive(entry: Mapping[str, object]) -> bool:
    """Whether a recorded process is running. A pid can be reused, but not with the same start time."""
    return bool(entry["started"]) and started(int(entry["pid"])) == entry["started"]


def children(parent: int) -> list[int]:
    """Returns the processes that a process has started."""
    return [pid for pid in every() if (_stat(pid) or ("", ""))[1] == str(parent)]


def name(pid: int) -> str:
    """The short name of a process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def cpus(pid: int) -> str:
    """The CPUs on which a process may run, as the kernel writes them: 0-3,8."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "-"
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return fields["Cpus_allowed_list"].strip()


def reap() -> None:
    """Reaps ended children, because they would otherwise count as running."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Locks the folder of an instance, so that another command fails in the meantime."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(
                f"another command of instance {folder.name} is running: wait until it ends"
            ) from None
        yield
