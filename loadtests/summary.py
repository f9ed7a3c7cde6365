"""Keeps what a run counted as JSON, and shows it as a short table."""

import json
import shutil
from pathlib import Path

from loadtests.k6 import FOLDER, Run

OUT = FOLDER / "out"
ROUTE = "{:<20} {:>9} {:>8} {:>9} {:>9} {:>9}"


def keep(run: Run, folder: Path) -> Path:
    """Writes the summary of the run, also as the scenario's latest; returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{run.scenario}-{run.started:%Y%m%dT%H%M%SZ}.json"
    record = {
        "scenario": run.scenario,
        "passed": run.exit_code == 0,
        "failed_thresholds": failed_thresholds(run.data),
        "exit_code": run.exit_code,
        "started": run.started.isoformat(timespec="seconds"),
        "seconds": round(run.seconds, 1),
        "gateway": run.target.gateway,
        "replicas": list(run.target.replicas),
        "k6": run.k6_version,
        "load_average_before": run.load_before,
        "summary": run.data,
    }
    file.write_text(json.dumps(record, indent=2) + "\n")
    shutil.copyfile(file, folder / f"{run.scenario}-latest.json")
    return file


def failed_thresholds(data: dict) -> list[str]:
    """Every threshold that does not hold, with its metric."""
    return [
        f"{name}: {expression}"
        for name, metric in data["metrics"].items()
        for expression, result in metric.get("thresholds", {}).items()
        if not result["ok"]
    ]


def describe(run: Run) -> str:
    """What happened on each route, who answered, and which thresholds failed."""
    metrics = run.data["metrics"]
    lines = [
        f"{run.scenario}: {_value(metrics, 'http_reqs', 'count'):.0f} requests in "
        + f"{run.seconds:.0f} s through {run.target.gateway} "
        + f"(k6 {run.k6_version}, load average {run.load_before[0]:.2f})",
        "",
        ROUTE.format("route", "requests", "failed", "p50 ms", "p99 ms", "max ms"),
        *[_route(metrics, route) for route in _tagged(metrics, "http_reqs", "name")],
        "",
    ]
    for replica, metric in _tagged(metrics, "replica_replies", "replica").items():
        lines.append(f"{replica:<11} {metric['values']['count']:.0f} replies")
    passed, failed = (_value(metrics, "checks", key) for key in ("passes", "fails"))
    lines.append(f"checks      {passed:.0f} passed, {failed:.0f} failed")
    lines += [f"            failed: {check}" for check in _failed_checks(run.data["root_group"])]
    dropped = _value(metrics, "dropped_iterations", "count")
    lines.append(f"not started {dropped:.0f} requests, for want of a free virtual user")
    lines.append(_verdict(run))
    return "\n".join(lines)


def _route(metrics: dict, route: str) -> str:
    tag = f"{{name:{route}}}"
    times = metrics[f"http_req_duration{tag}"]["values"]
    return ROUTE.format(
        route,
        f"{_value(metrics, f'http_reqs{tag}', 'count'):.0f}",
        # For a rate of failures, k6 counts those as passes.
        f"{_value(metrics, f'http_req_failed{tag}', 'passes'):.0f}",
        *(f"{times[key]:.2f}" for key in ("med", "p(99)", "max")),
    )


def _verdict(run: Run) -> str:
    failed = failed_thresholds(run.data)
    if failed:
        return "\n".join(["thresholds  FAILED:", *[f"            {line}" for line in failed]])
    if run.exit_code:
        return f"thresholds  hold as far as it came; k6 ended with exit {run.exit_code}"
    return "thresholds  all hold"


def _value(metrics: dict, name: str, key: str) -> float:
    """A value of a metric; k6 leaves out a metric that was never counted."""
    return metrics.get(name, {"values": {}})["values"].get(key, 0)


def _tagged(metrics: dict, name: str, tag: str) -> dict[str, dict]:
    """The series of a metric by the value of one tag."""
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
