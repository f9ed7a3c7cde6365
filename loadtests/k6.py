"""Runs one scenario with k6."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from loadtests import record
from loadtests.bench import machine
from loadtests.k6_summary import failed_thresholds, parts
from loadtests.record import Run
from loadtests.target import Target
from tools import resolve, table, versions
from tools.errors import ToolError

FOLDER = Path(__file__).resolve().parent


def scenarios() -> list[str]:
    """The names of all scenarios."""
    return sorted(script.stem for script in (FOLDER / "scenarios").glob("*.js"))


def purpose(scenario: str) -> str:
    """What a scenario answers: the first line of its script."""
    with (FOLDER / "scenarios" / f"{scenario}.js").open() as script:
        return script.readline().removeprefix("//").strip().replace("%", "%%")


def run(scenario: str, target: Target, settings: dict[str, object], out: Path) -> tuple[Run, Path]:
    """Runs a scenario to its end; the run, and its folder."""
    program = resolve.ensure(["k6"])["k6"]
    version = versions.remembered(program, table.find("k6"))
    load, started = os.getloadavg(), datetime.now(UTC)
    folder = record.create_folder(out, scenario, started)
    file = folder / "k6-summary.json"
    exit_code = subprocess.run(
        _command(program, scenario, target, file, settings), check=False
    ).returncode
    seconds = (datetime.now(UTC) - started).total_seconds()
    if not file.exists():
        raise ToolError(f"k6 ended with exit {exit_code} and no summary; it says why above")
    data = json.loads(file.read_text())
    file.unlink()
    found = Run(
        name=scenario,
        tool="k6",
        tool_version=version,
        passed=exit_code == 0,
        exit_code=exit_code,
        failed_thresholds=failed_thresholds(data),
        started=started.isoformat(timespec="seconds"),
        seconds=round(seconds, 1),
        target=record.Target(target.gateway, "gateway", list(target.replicas)),
        settings=settings,
        machine=machine.describe(),
        load_average_before=list(load),
        parts=parts(data),
        k6=data,
    )
    return found, folder


def _command(
    program: Path, scenario: str, target: Target, file: Path, settings: dict[str, object]
) -> list[str]:
    # Without an address k6 opens no API port, so that two runs do not meet.
    argv = [str(program), "run", "--address", "", "--no-usage-report"]
    if not sys.stderr.isatty():
        argv.append("--quiet")
    variables = {
        "BASE_URL": target.gateway,
        "REPLICA_NAMES": ",".join(target.replicas),
        "SUMMARY_FILE": str(file),
        **{name.upper(): value for name, value in settings.items()},
    }
    for name, value in variables.items():
        argv += ["--env", f"{name}={value}"]
    return [*argv, str(FOLDER / "scenarios" / f"{scenario}.js")]
