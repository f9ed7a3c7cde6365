"""Command line of the drill."""

import argparse
import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack

from dashboards.drill import cgroup, factor, report, run
from dashboards.drill.causes import TABLE
from dashboards.drill.drills import chosen, known
from dashboards.drill.verdict import DrillError
from dashboards.drill.watch import running_watch
from local import down, processes
from stack import REPOSITORY, pids
from tools.errors import ToolError

RULES = REPOSITORY / "dashboards" / "rules"

RUN = REPOSITORY / ".run" / "drill"

USAGE = 64

INTERRUPTED = 130
"""128 plus SIGINT, as in shells."""


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _parse(arguments)
    unknown = sorted(set(options.alerts) - known(TABLE))
    if unknown:
        names = ", ".join(sorted(known(TABLE)))
        print(f"drill: unknown alert {', '.join(unknown)}; known: {names}", file=sys.stderr)
        return USAGE
    try:
        return _run(options.alerts)
    except (DrillError, ToolError) as error:
        print(f"drill: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("drill: interrupted; logs are in .run/drill", file=sys.stderr)
        return INTERRUPTED


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dashboards/drill", description=__doc__)
    parser.add_argument("alerts", nargs="*", metavar="ALERT", help="alerts to drill (default: all)")
    try:
        return parser.parse_args(arguments)
    except SystemExit as end:
        raise SystemExit(USAGE if end.code == 2 else end.code) from None


def _run(alerts: list[str]) -> int:
    drills = chosen(alerts, TABLE).values()
    # Only a run of all drills includes the quiet period.
    whole = not alerts or any(each.whole for each in drills)
    begun = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(pids.lock(RUN))
        _clear()
        watch = stack.enter_context(running_watch(RUN, factor.read(RULES), factor.FACTOR))
        platform = stack.enter_context(run.whole_platform(watch)) if whole else None
        quiet = None if alerts else run.run(watch, platform)
        outcomes = run.run_all(watch, drills, platform)
    text = report.text(quiet, outcomes, time.monotonic() - begun)
    print(text)
    if not alerts:
        report.record(text)
    return 1 if run.failed(outcomes) or (quiet and quiet.failed) else 0


def _clear() -> None:
    cgroup.sweep()
    if processes.find(RUN):
        down.stop(RUN)
    for entry in RUN.iterdir():
        if entry.name != "lock":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    os.environ[processes.MARK] = str(RUN)
