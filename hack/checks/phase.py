"""One phase: a Makefile target, its log, and what its test runners report."""

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from checks.reports import Failure, Report
from stack import REPOSITORY
from tools import progress

LOGS = REPOSITORY / ".run" / "checks"

SHOWN = 300
"""Last lines printed for a failed phase; the log contains the rest."""


@dataclass
class Outcome:
    status: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.status = self.status or other.status
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures


def duration(seconds: float) -> str:
    """Returns the duration in minutes and seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def run(
    target: str,
    place: str,
    *,
    variables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Outcome:
    log = log or LOGS / f"{target}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    argv = ["make", "--no-print-directory", target]
    argv += [f"{name}={value}" for name, value in (variables or {}).items()]
    report = Report()
    begun, cpu = time.monotonic(), _cpu_seconds()
    with log.open("w") as output, _Process(argv, environment or {}) as process:
        ended = threading.Event()
        beat = threading.Thread(target=_beat, args=(place, log, report, ended), daemon=True)
        beat.start()
        try:
            for line in process.stdout:
                output.write(line)
                output.flush()
                report.read(line)
        finally:
            ended.set()
            beat.join()
    status = process.returncode
    took, busy = time.monotonic() - begun, _cpu_seconds() - cpu
    share = busy / took / os.cpu_count()
    print(f"{place}: {target} took {duration(took)}, with the CPUs {share:.0%} busy", flush=True)
    if status:
        print(*progress.tail(log, SHOWN), sep="\n")
        print(f"{target} failed (exit {status}); the whole log is {log}")
    failures = report.failures()
    if status and not failures:
        failures = [Failure(target, shlex.join(argv))]
    failed = report.failed or (1 if status else 0)
    return Outcome(status, report.passed, failed, report.skipped, failures)


class _Process:
    """The command, which is terminated together with this process: SIGTERM is passed on, and Ctrl-C
    reaches both processes."""

    def __init__(self, argv: list[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            argv,
            cwd=REPOSITORY,
            # Makes Python test runners write each line immediately.
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def __enter__(self) -> subprocess.Popen[str]:
        self._before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self._process

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind:
            self._process.terminate()
        self._process.wait()
        self._process.stdout.close()
        signal.signal(signal.SIGTERM, self._before)


def _cpu_seconds() -> float:
    """Busy time of all CPUs since boot, across all processes (proc_stat(5))."""
    user, nice, system, _idle, _iowait, irq, softirq = map(
        int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _beat(place: str, log: Path, report: Report, ended: threading.Event) -> None:
    begun = time.monotonic()
    while not ended.wait(progress.BEAT):
        last = "".join(progress.tail(log, 1))[:90]
        seconds = duration(time.monotonic() - begun)
        print(f"{place}: {seconds}, {report.passed:,} tests passed … {last}", flush=True)
