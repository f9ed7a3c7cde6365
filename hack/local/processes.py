"""An instance's processes: environment, identifying mark, and a lock against a second command."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from local.service import REFERENCE, Service
from stack import pids
from tools import progress
from tools.errors import ToolError


def make(run: Path, services: Sequence[Service], known: Mapping[str, set[str]]) -> dict[str, str]:
    """Adds the mark to this environment and removes variables that a service would reject.

    A service rejects CORELANE_ variables that are not its settings, but the user may have set one
    for another purpose. `known` contains the variables that each service reads.
    """
    known = set.intersection(*(known[service.name] for service in services))
    unknown = {name for name in os.environ if name.startswith("CORELANE_")} - known
    if unknown:
        listed = ", ".join(sorted(unknown))
        what = "the service" if len(services) == 1 else "every service"
        progress.say(services[0].name, f"ignores {listed}: not settings of {what}")
    kept = {name: value for name, value in os.environ.items() if name not in unknown}
    # The dashboard has buttons for faults; the admin ports listen only on loopback.
    faults = {"CORELANE_FAULTS": "on"} if "CORELANE_FAULTS" in known else {}
    return {**faults, **kept, MARK: str(run)}


PRINT_SCHEMA = "CORELANE_PRINT_SCHEMA"
"""Makes a service on corelane-service print its settings and exit, whatever flags it has."""

ANSWER = 10.0
"""Seconds for that program to exit, because other programs may ignore the variable and start
serving.
"""

LINES = 8


def variables(
    run: Path, program: Path, service: Service = REFERENCE, own: Mapping[str, str] = {}
) -> set[str]:
    """The CORELANE_ variables that a service reads. `own` contains additional variables of a
    replica.
    """
    if not service.chassis:
        return set()
    asked = subprocess.Popen(
        [program],
        cwd=run,
        env={**os.environ, **own, PRINT_SCHEMA: "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    try:
        output, _ = asked.communicate(timeout=ANSWER)
        end = f"ended with status {asked.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(asked.pid, signal.SIGKILL)
        output, _ = asked.communicate()
        end = f"ran for {ANSWER:.0f} s"
    known = set(re.findall(r"Environment: (CORELANE_[A-Z0-9_]+)", output))
    if "CORELANE_ADMIN_LISTEN" not in known:
        said = [f"    {line}" for line in output.splitlines()[-LINES:]]
        problem = (
            f"{program.name} {end} and did not print its settings, which {PRINT_SCHEMA}=1 requests. Either it is "
            "not on the crate corelane-service, or it does not call App::run without arguments. Any other program "
            "runs with --runtime other"
        )
        shown = ["the end of its output:", *said] if said else []
        raise ToolError("\n".join([problem, *shown]))
    return known


MARK = "LOCAL_RUN_DIR"
"""Variable of supervisord and all its children; its value is the run folder."""


def find(run: Path) -> list[int]:
    return pids.find(MARK, run)
