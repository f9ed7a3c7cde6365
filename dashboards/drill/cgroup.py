"""Temporary cgroups (v1 or v2) for drills on this machine."""

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dashboards.drill.verdict import DrillError
from stack import eventually

NAME = "corelane-drill-"
"""Prefix of cgroup names, followed by the ID of the process that created the cgroup."""

MOUNTS = Path("/proc/self/mounts")

PERIOD = 100_000


@dataclass(frozen=True)
class Limited:
    folder: Path

    @property
    def enters(self) -> tuple[str, ...]:
        return ("sh", "-ec", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh")


class Memory(Limited):
    def limit(self, size: int) -> None:
        """Sets the memory limit in bytes (kernel.org, memory and cgroup-v2)."""
        old = self.folder / "memory.limit_in_bytes"
        (old if old.exists() else self.folder / "memory.max").write_text(str(size))


class Quota(Limited):
    """A cgroup whose CPU time can be limited."""

    def limit(self, microseconds: int | None) -> None:
        """CPU microseconds per period; None removes the limit (kernel.org, sched-bwc and
        cgroup-v2).
        """
        old = self.folder / "cpu.cfs_quota_us"
        if old.exists():
            old.write_text("-1" if microseconds is None else str(microseconds))
        else:
            allowed = "max" if microseconds is None else microseconds
            (self.folder / "cpu.max").write_text(f"{allowed} {PERIOD}")


@contextmanager
def quota() -> Iterator[Quota]:
    with _cgroup(_mounted("cgroup", "cpu") or _mounted("cgroup2")) as folder:
        made = Quota(folder)
        if not any((folder / name).exists() for name in ("cpu.cfs_quota_us", "cpu.max")):
            raise DrillError(f"{folder.parent} does not delegate the controller cpu")
        yield made


@contextmanager
def memory() -> Iterator[Memory]:
    with _cgroup(_mounted("cgroup", "memory") or _mounted("cgroup2")) as folder:
        made = Memory(folder)
        if not any((folder / name).exists() for name in ("memory.limit_in_bytes", "memory.max")):
            raise DrillError(f"{folder.parent} does not delegate the controller memory")
        yield made


@dataclass(frozen=True)
class Freezer:
    """Can freeze single threads (kernel.org, cgroup-v2, "Threads" and "cgroup.freeze")."""

    folder: Path

    def freeze(self, process: int, thread: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(process))
        below = self.folder / "thread"
        below.mkdir()
        (below / "cgroup.type").write_text("threaded")
        (below / "cgroup.threads").write_text(str(thread))
        (below / "cgroup.freeze").write_text("1")

    def thaw(self) -> None:
        _thaw(self.folder)


@contextmanager
def freezer() -> Iterator[Freezer]:
    with _cgroup(_mounted("cgroup2")) as folder:
        yield Freezer(folder)


def sweep() -> None:
    for mounted in filter(
        None, (_mounted("cgroup", "cpu"), _mounted("cgroup", "memory"), _mounted("cgroup2"))
    ):
        for folder in mounted.glob(f"{NAME}*-*"):
            if not Path("/proc", folder.name.removeprefix(NAME).split("-")[0]).exists():
                _remove(folder)


@contextmanager
def _cgroup(above: Path | None) -> Iterator[Path]:
    if above is None or not os.access(above / "cgroup.procs", os.W_OK):
        raise DrillError("no writable cgroups are mounted: this drill requires root")
    folder = above / f"{NAME}{os.getpid()}-{secrets.token_hex(2)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        _remove(folder)


def _mounted(kind: str, controller: str = "") -> Path | None:
    """Mount point of cgroups of this version, with v1 for a controller (proc(5))."""
    for line in MOUNTS.read_text().splitlines():
        _, where, found, options, *_ = line.split()
        if found == kind and (not controller or controller in options.split(",")):
            return Path(where)
    return None


def _remove(folder: Path) -> None:
    _thaw(folder)
    for process in (folder / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    eventually(lambda: _gone(folder / "thread") and _gone(folder), f"{folder} is left")


def _thaw(folder: Path) -> None:
    with suppress(FileNotFoundError):
        (folder / "thread" / "cgroup.freeze").write_text("0")


def _gone(folder: Path) -> bool:
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()
