"""The record of a comparison, and every slice of every round."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median

from loadtests import record
from loadtests.bench import machine
from loadtests.bench.experiment.builds import BENCH, locked
from loadtests.compare import report, verdict
from loadtests.compare.measures import BUILDS, Measure, Sample
from loadtests.compare.run import Result
from loadtests.report import keep
from local.topology import HOST

NAME = "compare"
GENERATOR = "load-generator"
PERCENTILES = {"0": "min", "mean": "mean", "50": "p50", "90": "p90", "99": "p99", "99.9": "p99.9"}
"""The load generator's, with their names in a record; of `max` the greatest is taken instead."""

CURVE = (0.0, 50.0, 90.0, 99.0, 99.9, 100.0)


def write(result: Result, status: int, out: Path) -> Path:
    """Writes the folder of a comparison: run.json, summary.md, report.html and rounds.json."""
    folder = record.create_folder(out, NAME, result.started)
    (folder / "rounds.json").write_text(json.dumps(_rounds(result), indent=1) + "\n")
    keep(_run(result, status), folder)
    # Before what every run's summary has: the answer.
    summary = folder / "summary.md"
    summary.write_text(f"{report.markdown(result)}\n{summary.read_text()}")
    return folder


def _run(result: Result, status: int) -> record.Run:
    measures, slower = result.plan.measures, result.look.of(verdict.SLOWER)
    through = any(measure.path == "gateway" for measure in measures)
    places = dict.fromkeys((measure.path, measure.loop) for measure in measures)
    return record.Run(
        name=NAME,
        tool=GENERATOR,
        tool_version=locked(BENCH)[GENERATOR],
        passed=status == 0,
        exit_code=status,
        failed_thresholds=[report.sentence(finding) for finding in slower],
        started=result.started.isoformat(timespec="seconds"),
        seconds=round(result.seconds, 1),
        target=record.Target(HOST, "gateway" if through else "direct", list(BUILDS)),
        settings=_settings(result),
        machine=machine.describe(),
        load_average_before=list(result.load_average),
        notes=[f"Head is {report.answer(result)}."],
        parts=[_part(result, build, *place) for place in places for build in BUILDS],
    )


def _settings(result: Result) -> dict[str, object]:
    found: dict[str, object] = {
        "verdict": result.look.verdict,
        "base": result.builds["base"].title,
        "head": result.builds["head"].title,
        "profile": result.plan.profile,
        "rounds": result.look.rounds,
        "seed": result.plan.seed,
    }
    return found | (asdict(result.load) if result.load else {})


def _part(result: Result, build: str, path: str, loop: str) -> record.Part:
    samples = [
        one.sample
        for done in result.rounds
        for one in done
        if (one.build, one.path, one.loop) == (build, path, loop)
    ]
    measures = [one for one in result.plan.measures if (one.path, one.loop) == (path, loop)]
    kinds = {kind for sample in samples for kind in sample["latency_us"]}
    return record.Part(
        name=f"{build}, {path}, {loop} loop",
        seconds=round(sum(sample["seconds"] for sample in samples), 2),
        requests=sum(sample["requests"] for sample in samples),
        failed=sum(sample["wrong"] for sample in samples),
        requests_per_second=round(fmean(sample["requests_per_second"] for sample in samples), 1),
        routes={_name(kind): _route(kind, samples) for kind in sorted(kinds)},
        percentiles={_name(kind): _curve(kind, samples) for kind in sorted(kinds)},
        figures={
            name: figure
            for measure in measures
            for name, figure in _figures(result, measure, build, samples).items()
        },
    )


def _name(kind: str) -> str:
    return record.ALL if kind == record.ALL else f"/{kind}"


def _route(kind: str, samples: Iterable[Sample]) -> record.Route:
    """Percentiles are medians over the slices."""
    found = [sample["latency_us"][kind] for sample in samples if kind in sample["latency_us"]]
    latency = {name: median(one[key] for one in found) / 1e3 for key, name in PERCENTILES.items()}
    latency["max"] = max(one["100"] for one in found) / 1e3
    return record.Route(sum(one["count"] for one in found), 0, latency)


def _curve(kind: str, samples: Iterable[Sample]) -> list[list[float]]:
    """The distribution from the load generator."""
    found = [sample["latency_us"][kind] for sample in samples if kind in sample["latency_us"]]
    return [[percent, median(one[f"{percent:g}"] for one in found) / 1e3] for percent in CURVE]


def _figures(
    result: Result, measure: Measure, build: str, samples: Iterable[Sample]
) -> dict[str, record.Figure]:
    """The quantity, and of head its cost in that of base."""
    value = median(map(measure.quantity, samples))
    figures = {measure.name: record.Figure(round(value, 3), measure.unit)}
    if build == "head":
        (finding,) = (one for one in result.look.findings if one.measure == measure.name)
        figures[f"{measure.name} × base"] = record.Figure(round(finding.ratio, 4), "")
    return figures


def _rounds(result: Result) -> dict:
    """All measurements, to judge them by other rules."""
    return {
        "base": result.builds["base"].title,
        "head": result.builds["head"].title,
        "seconds": dict(result.plan.seconds),
        "load": asdict(result.load) if result.load else None,
        "rounds": [[asdict(one) for one in done] for done in result.rounds],
    }
