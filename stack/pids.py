"""Processes by pid, as /proc shows them, including other commands' processes."""

import fcntl
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.errors import ToolError


def every() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def find(mark: str, value: object) -> list[int]:
    """The pids of all living processes with this variable, which children inherit."""
    return [pid for pid in every() if _marked(pid, mark, value)]


def environment(pid: int) -> dict[str, str]:
    """Initial environment of a process; empty if unreadable."""
    pairs = (os.fsdecode(pair) for pair in _environment(pid) if b"=" in pair)
    return dict(pair.split("=", 1) for pair in pairs)


def _environment(pid: int) -> list[bytes]:
    try:
        # The file is empty for a zombie, so a process that is only waiting to be reaped does not
        # count.
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _marked(pid: int, mark: str, value: object) -> bool:
    return os.fsencode(f"{mark}={value}") in _environment(pid)


def send(pid: int, number: signal.Signals, mark: str, value: object) -> None:
    """Signals a process if it still has the mark, because a pid may have a new owner."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if _marked(pid, mark, value):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def kill(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _stat(pid: int) -> list[str]:
    """Fields after the name in /proc/PID/stat (proc(5)): state, parent and so on. Empty if the
    process is gone.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def state(pid: int) -> str:
    """A state such as T for stopped; X if the process is gone."""
    return (_stat(pid) or "X")[0]


def started(pid: int) -> str:
    """Returns a process's start time in ticks since boot, or "" if the process is gone."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def alive(entry: Mapping[str, object]) -> bool:
    """A pid can be reused, but not with the same start time."""
    return bool(entry["started"]) and started(int(entry["pid"])) == entry["started"]


def children(parent: int) -> list[int]:
    return [pid for pid in every() if (_stat(pid) or ("", ""))[1] == str(parent)]


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def cpus(pid: int) -> str:
    """The allowed CPUs of a process in the kernel's list format: 0-3,8."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "-"
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return fields["Cpus_allowed_list"].strip()


def reap() -> None:
    """Reaps exited children, because they would otherwise be considered running."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Another command on the same instance fails in the meantime."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(
                f"another command for instance {folder.name} is running: wait until it finishes"
            ) from None
        yield
