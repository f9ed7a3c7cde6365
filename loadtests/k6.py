"""Runs one scenario with k6."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from loadtests.target import Target
from tools import resolve, table, versions
from tools.errors import ToolError

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Run:
    """A run that ended, and what k6 counted (the argument of its handleSummary)."""

    scenario: str
    target: Target
    started: datetime
    seconds: float
    k6_version: str
    load_before: tuple[float, float, float]
    exit_code: int
    data: dict


def scenarios() -> list[str]:
    """The names of all scenarios."""
    return sorted(script.stem for script in (FOLDER / "scenarios").glob("*.js"))


def run(scenario: str, target: Target, *, rate: int | None, duration: str | None) -> Run:
    """Runs a scenario to its end."""
    program = resolve.ensure(["k6"])["k6"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "summary.json"
        argv = _command(program, scenario, target, file, rate, duration)
        load, started = os.getloadavg(), datetime.now(UTC)
        exit_code = subprocess.run(argv, check=False).returncode
        seconds = (datetime.now(UTC) - started).total_seconds()
        if not file.exists():
            raise ToolError(f"k6 ended with exit {exit_code} and no summary; it says why above")
        data = json.loads(file.read_text())
    version = versions.remembered(program, table.find("k6"))
    return Run(scenario, target, started, seconds, version, load, exit_code, data)


def _command(
    program: Path,
    scenario: str,
    target: Target,
    file: Path,
    rate: int | None,
    duration: str | None,
) -> list[str]:
    # Without an address k6 opens no API port, so that two runs do not meet.
    argv = [str(program), "run", "--address", "", "--no-usage-report"]
    if not sys.stderr.isatty():
        argv.append("--quiet")
    variables = {
        "BASE_URL": target.gateway,
        "REPLICA_NAMES": ",".join(target.replicas),
        "SUMMARY_FILE": str(file),
        "RATE": rate,
        "DURATION": duration,
    }
    for name, value in variables.items():
        if value is not None:
            argv += ["--env", f"{name}={value}"]
    return [*argv, str(FOLDER / "scenarios" / f"{scenario}.js")]
