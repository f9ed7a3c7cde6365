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

from loadtests import record
from loadtests.record import ALL, Checks, Part, Route, Run
from loadtests.report import collect, prometheus
from loadtests.report.collect import Collector
from loadtests.report.progress import Progress
from loadtests.target import Target
from stack import machine
from tools import resolve, table, versions
from tools.errors import ToolError

STATISTICS = {
    "min": "min",
    "mean": "avg",
    "p50": "med",
    "p90": "p(90)",
    "p95": "p(95)",
    "p99": "p(99)",
    "p99.9": "p(99.9)",
    "max": "max",
}
"""The record's statistics, with k6's names."""


def failed_thresholds(data: dict) -> list[str]:
    return [
        f"{name}: {expression}"
        for name, metric in data["metrics"].items()
        for expression, result in metric.get("thresholds", {}).items()
        if not result["ok"]
    ]


def parts(data: dict) -> list[Part]:
    """Returns the entire run as one part without samples, with the routes that thresholds name."""
    metrics = data["metrics"]
    seconds = data["state"]["testRunDurationMs"] / 1000
    routes = {ALL: _route_of(metrics, "")}
    for name in tagged(metrics, "http_reqs", "name"):
        routes[name] = _route_of(metrics, f"{{name:{name}}}")
    return [
        Part(
            name=ALL,
            seconds=round(seconds, 3),
            requests=routes[ALL].requests,
            failed=routes[ALL].failed,
            requests_per_second=round(routes[ALL].requests / seconds, 3) if seconds else 0.0,
            dropped=round(value(metrics, "dropped_iterations", "count")),
            checks=Checks(
                passed=round(value(metrics, "checks", "passes")),
                failed=round(value(metrics, "checks", "fails")),
                failed_names=_failed_checks(data["root_group"]),
            ),
            routes=routes,
        )
    ]


def _route_of(metrics: dict, tag: str) -> Route:
    times = metrics.get(f"http_req_duration{tag}", {"values": {}})["values"]
    return Route(
        requests=round(value(metrics, f"http_reqs{tag}", "count")),
        # In a failure rate, k6 counts failures as passes.
        failed=round(value(metrics, f"http_req_failed{tag}", "passes")),
        latency_ms={name: times[key] for name, key in STATISTICS.items() if key in times},
    )


def value(metrics: dict, name: str, key: str) -> float:
    """Returns the value of a metric; k6 omits metrics that were never counted."""
    return metrics.get(name, {"values": {}})["values"].get(key, 0)


def tagged(metrics: dict, name: str, tag: str) -> dict[str, dict]:
    start = f"{name}{{{tag}:"
    return {
        key.removeprefix(start).removesuffix("}"): metric
        for key, metric in sorted(metrics.items())
        if key.startswith(start)
    }


def _failed_checks(group: dict) -> list[str]:
    failed = [
        f"{check['name']} ({check['fails']} of {check['fails'] + check['passes']})"
        for check in group["checks"]
        if check["fails"]
    ]
    return failed + [line for inner in group["groups"] for line in _failed_checks(inner)]


FOLDER = Path(__file__).resolve().parent
THRESHOLD = 99
"""k6's exit status for a failed threshold."""

INTERRUPTED = 105
"""k6's exit status after an interrupt."""


def scenarios() -> list[str]:
    return sorted(script.stem for script in (FOLDER / "scenarios").glob("*.js"))


def purpose(scenario: str) -> str:
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
    variables = {**_dashboard(folder), **os.environ, **target.environment(), **variables}
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
        failed_thresholds=failed_thresholds(data),
        started=started.isoformat(timespec="milliseconds"),
        seconds=round(seconds, 1),
        # A scenario that contacts a replica directly sets this itself.
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
    for place, found in figures.items():
        part = run.parts[0] if len(run.parts) == 1 else run.part(place)
        kept = run.figures if part is None else part.figures
        kept |= {
            name: record.Figure(**one) for name, one in found.items() if one["value"] is not None
        }


def _command(program: Path, scenario: str, file: Path, settings: dict[str, object]) -> list[str]:
    # Without an address, k6 opens no API port, so that two runs do not conflict. k6's own progress
    # output would be mixed with the samples.
    argv = [str(program), "run", "--address", "", "--no-usage-report", "--quiet"]
    variables = {
        "SUMMARY_FILE": str(file),
        **{name.upper(): value for name, value in settings.items()},
    }
    for name, value in variables.items():
        argv += ["--env", f"{name}={value}"]
    return [*argv, str(FOLDER / "scenarios" / f"{scenario}.js")]


def _outputs(server: str, testid: str) -> tuple[list[str], dict[str, str]]:
    """Outputs for k6's samples: this process, and a Prometheus that accepts them."""
    argv = ["--tag", f"testid={testid}", "--out", "csv=-"]
    variables = {"K6_CSV_TIME_FORMAT": collect.TIME_FORMAT}
    if prometheus.receives(server):
        argv += ["--out", "experimental-prometheus-rw"]
        variables |= prometheus.remote_write(server)
    return argv, variables


DASHBOARD = "k6-dashboard.html"
"""k6's own report in the folder of a run."""


def _dashboard(folder: Path) -> dict[str, str]:
    """Prepares K6_WEB_DASHBOARD=true: k6 serves a page during the run, and writes it as a report at
    the end.
    """
    if os.environ.get("K6_WEB_DASHBOARD") != "true":
        return {}
    return {"K6_WEB_DASHBOARD_EXPORT": str(folder / DASHBOARD)}


def _follow(
    scenario: str,
    argv: list[str],
    variables: dict[str, str],
    folder: Path,
    started: float,
    collector: Collector,
) -> int:
    """Runs k6 and collects its samples until it ends; returns its exit status."""
    progress = Progress(scenario, folder / "progress.log")
    # Use a separate session: Ctrl-C would reach k6 twice, and the second signal makes k6 exit
    # without a summary.
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
    """Shows and stores k6's output other than samples."""
    with file.open("w") as log:
        for line in process.stderr:
            log.write(line)
            progress.say(line)


@contextmanager
def _stopped_by_a_signal(process: subprocess.Popen) -> Iterator[None]:
    """Stops k6 on a signal to the run; k6 then writes its summary, so that there is a report."""

    def stop(_number: int, _frame: object) -> None:
        process.send_signal(signal.SIGINT)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
