"""`compare-direct` on a real platform, and what it refuses to measure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench import ab, compare_report
from support import REPOSITORY
from support.platforms import Platform

pytestmark = pytest.mark.nightly


def compare(platform: Platform, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "compare-direct", "--quick", "--rounds", "1"]
    return subprocess.run(
        [*argv, "--out", str(out), *more],
        cwd=REPOSITORY,
        env={**os.environ, "INSTANCE": platform.instance},
        capture_output=True,
        text=True,
        check=False,
    )


def test_both_sides_are_measured_and_written(platform: Platform, tmp_path: Path) -> None:
    result = compare(platform, tmp_path)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "compare-direct.json").read_text())
    for mode, kept_alive in (("close", False), ("keep-alive", True)):
        for side in ("direct", "gateway"):
            (sample,) = record["results"][mode][side]
            assert sample["complete"] == 5000
            assert sample["wrong"] == 0
            assert bool(sample["kept_alive"]) is kept_alive
            assert sample["cpu_us_per_request"]["replicas"] > 0
            times = list(sample["percentiles"].values())
            assert times == sorted(times)
        direct, gateway = (record["results"][mode][side][0] for side in ("direct", "gateway"))
        # Beside requests that go elsewhere the gateway has next to nothing to do.
        costs = [sample["cpu_us_per_request"]["gateway"] for sample in (direct, gateway)]
        assert costs[1] > costs[0]
    report = (tmp_path / "compare-direct.md").read_text()
    assert report == compare_report.markdown(record)
    assert result.stdout == report + "\n"
    assert all(f"| {percent} % " in report for percent in ab.PERCENTS)


def test_what_is_not_answered_is_not_measured(platform: Platform, tmp_path: Path) -> None:
    result = compare(platform, tmp_path, "--path", "/no-such-route")
    assert result.returncode == 1
    assert "/no-such-route: 2000 of 2000 requests failed" in result.stderr
    assert "curl --http1.0 -i" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_one_wrong_answer_is_told() -> None:
    record = json.loads((Path(__file__).with_name("data") / "compare-direct.json").read_text())
    assert compare_report.wrong(record) == 0
    plan, modes, sides = record["plan"], len(compare_report.TITLES), len(compare_report.SIDES)
    total = plan["requests"] * plan["rounds"] * modes * sides
    record["results"]["close"]["gateway"][0]["wrong"] = 1
    assert compare_report.wrong(record) == 1
    assert compare_report.reading(record)[-1].startswith(f"1 of {total:,} requests failed")
