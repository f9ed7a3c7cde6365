"""Runs one scenario with k6."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from loadtests import k6_summary, record
from loadtests.bench import machine
from loadtests.record import Run
from loadtests.report import collect, prometheus
from loadtests.report.collect import Collector
from loadtests.report.progress import Progress
from loadtests.target import Target
from tools import resolve, table, versions
from tools.errors import ToolError

FOLDER = Path(__file__).resolve().parent
THRESHOLD = 99
"""k6's exit status when a threshold does not hold."""

INTERRUPTED = 105
"""k6's exit status after an interrupt."""


def scenarios() -> list[str]:
    """The names of all scenarios."""
    return sorted(script.stem for script in (FOLDER / "scenarios").glob("*.js"))


def purpose(scenario: str) -> str:
    """What a scenario answers: the first line of its script."""
    with (FOLDER / "scenarios" / f"{scenario}.js").open() as script:
        return script.readline().removeprefix("//").strip()


def run(scenario: str, target: Target, settings: dict[str, object], folder: Path) -> Run:
    """Runs a scenario to its end; its samples become the parts of the record."""
    program = resolve.ensure(["k6"])["k6"]
    version = versions.remembered(program, table.find("k6"))
    load, started = os.getloadavg(), datetime.now(UTC)
    file = folder / "k6-summary.json"
    argv = _command(program, scenario, file, settings)
    outputs, variables = _outputs(target.prometheus, folder.name)
    collector = Collector()
    variables = {**os.environ, **target.environment(), **variables}
    exit_code = _follow(
        scenario, [*argv, *outputs], variables, folder, started.timestamp(), collector
    )
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
        failed_thresholds=k6_summary.failed_thresholds(data),
        started=started.isoformat(timespec="milliseconds"),
        seconds=round(seconds, 1),
        # A scenario that asks a replica itself says so.
        target=target.asked(data.pop("via", "gateway")),
        settings=settings,
        machine=machine.describe(),
        load_average_before=[round(value, 2) for value in load],
        parts=collector.parts(),
        server=prometheus.ask(target.prometheus, started.timestamp(), seconds),
        notes=data.pop("notes", []),
    )
    _take_figures(found, data.pop("figures", {}))
    found.k6 = data
    return found


def _take_figures(run: Run, figures: dict[str, dict]) -> None:
    """Gives each part what the scenario itself worked out about it."""
    for place, found in figures.items():
        part = run.parts[0] if len(run.parts) == 1 else run.part(place)
        kept = run.figures if part is None else part.figures
        kept |= {
            name: record.Figure(**one) for name, one in found.items() if one["value"] is not None
        }


def _command(program: Path, scenario: str, file: Path, settings: dict[str, object]) -> list[str]:
    # Without an address k6 opens no API port, so that two runs do not meet. Its own progress would
    # be between the samples.
    argv = [str(program), "run", "--address", "", "--no-usage-report", "--quiet"]
    variables = {
        "SUMMARY_FILE": str(file),
        **{name.upper(): value for name, value in settings.items()},
    }
    for name, value in variables.items():
        argv += ["--env", f"{name}={value}"]
    return [*argv, str(FOLDER / "scenarios" / f"{scenario}.js")]


def _outputs(server: str, testid: str) -> tuple[list[str], dict[str, str]]:
    """Where k6 writes its samples: to us, and to Prometheus where that takes them."""
    argv = ["--tag", f"testid={testid}", "--out", "csv=-"]
    variables = {"K6_CSV_TIME_FORMAT": collect.TIME_FORMAT}
    if prometheus.receives(server):
        argv += ["--out", "experimental-prometheus-rw"]
        variables |= prometheus.remote_write(server)
    return argv, variables


def _follow(
    scenario: str,
    argv: list[str],
    variables: dict[str, str],
    folder: Path,
    started: float,
    collector: Collector,
) -> int:
    """Runs k6 and gathers its samples until it ends; its exit status."""
    progress = Progress(scenario, folder / "progress.log")
    # In a session of its own: Ctrl-C would tell k6 twice, and the second time it ends without a summary.
    with subprocess.Popen(
        argv,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        said = threading.Thread(target=_log, args=(process, folder / "k6.log", progress))
        said.start()
        with _stopped_by_a_signal(process):
            collect.read(process.stdout, started, collector, progress)
            process.wait()
        said.join()
    progress.end()
    return process.returncode


def _log(process: subprocess.Popen, file: Path, progress: Progress) -> None:
    """Shows and keeps the output of k6 in addition to its samples."""
    with file.open("w") as log:
        for line in process.stderr:
            log.write(line)
            progress.say(line)


@contextmanager
def _stopped_by_a_signal(process: subprocess.Popen) -> Iterator[None]:
    """A signal to the run also stops k6, which then writes its summary, so that there is a report."""

    def stop(_number: int, _frame: object) -> None:
        process.send_signal(signal.SIGINT)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
