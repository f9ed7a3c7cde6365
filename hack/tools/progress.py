"""Reports slow steps on stderr."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BEAT = 5.0 if sys.stderr.isatty() else 15.0

_lock = threading.Lock()
_running: dict[str, tuple[float, Path | None]] = {}
_beating = False


def say(name: str, text: str) -> None:
    with _lock:
        print(f"  {name:<12} {text}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str, text: str, log: Path | None = None) -> Iterator[None]:
    """Reports the start of a slow step, its progress, and its duration.

    Progress is the last line of `log`.
    """
    say(name, text)
    started = time.monotonic()
    with _lock:
        _running[name] = (started, log)
    _start_beating()
    try:
        yield
    finally:
        with _lock:
            _running.pop(name, None)
    say(name, f"done in {time.monotonic() - started:.0f} s")


def _start_beating() -> None:
    global _beating
    with _lock:
        if _beating:
            return
        _beating = True
    threading.Thread(target=_beat, daemon=True).start()


def _beat() -> None:
    while True:
        time.sleep(BEAT)
        with _lock:
            running = dict(_running)
        for name, (started, log) in running.items():
            seconds = time.monotonic() - started
            if seconds >= BEAT / 2:
                say(name, f"{seconds:.0f} s … {_last_line(log)}".rstrip(" …"))


def _last_line(log: Path | None) -> str:
    lines = tail(log, 1) if log else []
    return lines[0].strip()[:80] if lines else ""


def tail(file: Path, count: int) -> list[str]:
    try:
        with open(file, "rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - 64 * 1024))
            text = stream.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    lines = [_shown(line) for line in text.split("\n")]
    return [line for line in lines if line][-count:]


def _shown(line: str) -> str:
    """The text that a terminal would show at the end, because a progress bar overwrites itself."""
    parts = [part for part in line.split("\r") if part.strip()]
    return parts[-1].rstrip() if parts else ""
