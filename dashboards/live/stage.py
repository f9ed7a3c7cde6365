"""Starts a whole platform from real parts, and stops it: `with stage() as platform`."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from dashboards.live import assemble
from dashboards.live.platform import Options, Platform
from local import down, processes
from stack import REPOSITORY, pids, postgres
from stack.http_server import Request, serving
from stack.process import describe, end
from tools.errors import ToolError

EVERY = 1.0


@contextmanager
def accounting(platform: Platform) -> Iterator[None]:
    """Updates the CPU time of the containers until the context ends."""
    ended = threading.Event()

    def account() -> None:
        while not ended.wait(EVERY):
            for container in list(platform.containers.values()):
                # While a process is restarting, there is no file to read. If it exits while its
                # file is open, reading fails with ESRCH.
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
    """CPU time of a process in nanoseconds: user and system, fields 14 and 15 of proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def collector(port: int) -> AbstractContextManager[str]:
    def answer(request: Request) -> None:
        request.body()
        request.reply(200, ("content-type", "application/x-protobuf"))

    return serving(answer, port=port)


@contextmanager
def stage(options: Options) -> Iterator[Platform]:
    """Yields a running platform; at the end, only its logs in `.run/<name>` remain.

    An error names a part that exited prematurely.
    """
    run = REPOSITORY / ".run" / options.name
    with pids.lock(run), _unwound(), ExitStack() as stack:
        _clear(run)
        platform = assemble.assemble(options, run)
        try:
            stack.enter_context(collector(platform.plan.collector))
            platform.start()
            stack.enter_context(accounting(platform))
            yield platform
            failed = [part for part in platform.parts.values() if part.failed]
            if failed:
                raise ToolError(describe("ended by itself", failed))
        finally:
            end(list(platform.parts.values()))
            postgres.remove(run / "postgres")


def _clear(run: Path) -> None:
    """Stops and removes the remains of a stage that was killed."""
    if processes.find(run):
        down.stop(run)
    for entry in run.iterdir():
        if entry.name != "lock":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


@contextmanager
def _unwound() -> Iterator[None]:
    """SIGTERM and closing the terminal end a stage, as Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    # An ignored signal, as under nohup, stays ignored.
    caught = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, signal.default_int_handler) for each in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
