"""`bench mixed`: every user gets what it saved, by every way, and an error fails the run."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loadtests.bench.mixed import phases, picture, report, run, tables
from loadtests.bench.mixed.cells import MODES, cells
from loadtests.bench.mixed.measure import QUICK
from support import REPOSITORY

pytestmark = pytest.mark.nightly

MODE = "many-many"


def test_a_run_asks_each_way_for_the_same(binary: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "loadtests/bench", "mixed", "--quick", "--modes", MODE]
    argv += ["--server", binary, "--profile", "dev", "--out", tmp_path]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "bench-mixed.json").read_text())
    assert report.errors(record) == 0
    assert len(record["cells"]) == 4
    each = QUICK.requests // 3
    for cell in record["cells"]:
        ((closed, mixed, pages),) = (
            [sample[part] for part in report.PARTS] for sample in cell["samples"]
        )
        assert {kind: closed["latency_ms"][kind]["count"] for kind in ("page", "load", "save")} == {
            "page": each,
            "load": each,
            "save": each,
        }
        # Nobody answered in the server's stead, and nothing came to it twice.
        assert handled(closed) == {"/static/{*path}": each, "/projects/{id}": 2 * each}
        assert sum(closed["lanes"].values()) == QUICK.requests
        assert mixed["requests"] > 0 < pages["requests"]
        assert set(pages["latency_ms"]) == {"page", "all"}
        assert (closed["cpu_us"]["gateway"] > 0) == (cell["path"] == "gateway")
        assert (closed["cpu_us"]["database"] > 0) == (cell["database"] == "postgres")
    assert (tmp_path / "bench-mixed.md").read_text() == report.markdown(record)
    assert (tmp_path / "bench-mixed.svg").is_file()


def handled(part: dict) -> dict[str, int]:
    """How often each route's handler ran."""
    return {
        label.partition("=")[2]: each["count"]
        for each in part["phases"]
        for label in each["labels"]
        if "phase=handler" in each["labels"] and label.startswith("route=/")
    }


def part(seconds: float, page_p99: float, faults: dict[str, int]) -> dict:
    """What one part of a cell gives."""
    percentiles = dict.fromkeys(("0", "50", "90", "99", "99.9", "100"), 2 * page_p99)
    times = {"count": 10, "mean": 1.0, "sd": 0.5, **percentiles}
    page = {**times, "99": page_p99}
    return {
        "requests": 1000,
        "errors": sum(faults.values()),
        "faults": faults,
        "seconds": seconds,
        "requests_per_second": 1000 / seconds,
        "rate": 500 / seconds,
        "latency_ms": {"page": page, "load": times, "save": times, "all": times},
        "connect_ms": times,
        "first_reply_ms": times,
        "cpu_us": {
            "server": 50.0,
            "writer": 5.0,
            "database": 0.0,
            "gateway": 0.0,
            "generator": 10.0,
        },
        "busy_cores": 1.5,
        "others_cores": 0.01,
        "stolen_cores": 0.0,
        "phases": phases.between(METRICS[0], METRICS[1]),
    }


METRICS = [
    f"""\
# TYPE corelane_request_phase_seconds histogram
corelane_request_phase_seconds_sum{{lane="0",route="/projects/{{id}}",phase="handler"}} {total}
corelane_request_phase_seconds_count{{lane="0",route="/projects/{{id}}",phase="handler"}} {count}
corelane_request_phase_seconds_sum{{lane="1",route="/projects/{{id}}",phase="handler"}} {total}
corelane_request_phase_seconds_count{{lane="1",route="/projects/{{id}}",phase="handler"}} {count}
corelane_requests_total{{lane="1"}} {count}
"""
    for total, count in ((1.0, 100), (1.6, 200))
]

SECONDS = {
    "one-lane": [4.0, 9.0, 6.0],
    "one-slot": [10.0, 10.0, 10.0],
    "many-many": [2.0, 3.0, 4.0],
}


def record(faults: dict[str, int] | None = None) -> dict:
    """A record such as a run makes."""
    found = []
    for cell in cells():
        samples = [
            {
                "closed": part(seconds, 4.0, faults or {}),
                "open": part(1.0, 3.0, {}),
                "pages": part(1.0, 2.0, {}),
            }
            for seconds in SECONDS[cell.mode]
        ]
        place = {"database": cell.database, "path": cell.path, "mode": cell.mode}
        found.append({**place, "title": cell.title, "samples": samples})
    size = {"users": 10, "rounds": 10, "seconds": 1.0, "alone": 1.0}
    return {
        "command": "the command",
        "plan": {"rounds": 3, "size": size},
        "machine": {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "x"},
        "versions": {"PostgreSQL": "15.0"},
        "profile": "release",
        "sync": {"file_system": "ext4", "p50_ms": 4.0, "p99_ms": 12.0},
        "seconds": 600.0,
        "load_average": {"before": [0.0] * 3, "after": [0.0] * 3},
        "cells": found,
    }


def test_modes_are_compared_within_a_round() -> None:
    text = report.markdown(record())
    # The medians of all rounds, 6 and 3, would say the same; the brackets would not.
    assert "2.00 (1.50–3.00) on SQLite, direct" in text
    assert "published are 3.36" in text
    assert "| published: many threads, one slot each" in text
    assert "None of 108,000 requests failed." in text
    assert "is 3.00 (3.00–3.00) ms, 1.50 (1.50–1.50) of that among as many pages" in text
    # 0.6 s more in 100 requests more, of each lane.
    assert "| `/projects/{id}` | –          | –         | 6.00 (6.00–6.00)" in text


def test_an_error_fails_the_run_after_the_table_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = record({"save: status 503": 1})
    monkeypatch.setattr(run, "_record", lambda _plan: failed)
    assert run.main(run.Plan(), tmp_path) == 1
    text = (tmp_path / "bench-mixed.md").read_text()
    assert "36 of 108,000 requests failed: save: status 503 36." in text
    assert json.loads((tmp_path / "bench-mixed.json").read_text()) == failed


def test_the_picture_has_a_line_for_each_cell_and_loop() -> None:
    root = ElementTree.fromstring(picture.draw(record()))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * len(cells())
    assert {line.get("stroke") for line in lines} == {picture.COLOURS[mode] for mode in MODES}


def test_what_failed_entirely_has_no_latency() -> None:
    failed = record()
    for sample in failed["cells"][0]["samples"]:
        sample["open"]["latency_ms"] = {"all": {"count": 0}}
    assert tables.values(failed["cells"][0], "open", "latency_ms", "page", "99") == [0.0] * 3
    report.markdown(failed)
    picture.draw(failed)
