"""Starts a whole platform from real parts, and ends it: `with stage() as platform`."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dashboards.live import assemble, parts
from dashboards.live.accounting import accounting
from dashboards.live.collector import collector
from dashboards.live.options import Options
from dashboards.live.platform import Platform
from local import down, instance, processes
from local.settings import REPOSITORY
from postgres import instance as postgres
from tools.errors import ToolError


@contextmanager
def stage(options: Options) -> Iterator[Platform]:
    """A platform that serves; at the end nothing of it is left but its logs in `.run/<name>`.

    A part that has ended by itself meanwhile is an error that names it.
    """
    run = REPOSITORY / ".run" / options.name
    with instance.lock(run), _unwound(), ExitStack() as stack:
        _clear(run)
        platform = assemble.assemble(options, run)
        try:
            stack.enter_context(collector(platform.plan.collector))
            platform.start()
            stack.enter_context(accounting(platform))
            yield platform
            failed = [part for part in platform.parts.values() if part.failed]
            if failed:
                raise ToolError(parts.describe("ended by itself", failed))
        finally:
            parts.end(list(platform.parts.values()))
            postgres.remove(run / "postgres")


def _clear(run: Path) -> None:
    """Ends and removes what a stage left that could not end by itself."""
    if processes.find(run):
        down.stop(run)
    for entry in run.iterdir():
        if entry.name != "lock":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


@contextmanager
def _unwound() -> Iterator[None]:
    """SIGTERM, and the end of the terminal, end a stage as Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    # One that is ignored, as under nohup, stays so.
    caught = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, signal.default_int_handler) for each in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
