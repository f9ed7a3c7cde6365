"""`direct` on a real platform, what it does not measure, and how ab's output is read; `data` holds what real runs printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench import ab
from loadtests.bench.direct.experiment import Direct
from loadtests.bench.experiment.record import Record
from support import REPOSITORY
from support.platforms import Platform
from tools.errors import ToolError

pytestmark = pytest.mark.nightly


def compare(platform: Platform, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "direct", "--quick", "--out", str(out)]
    return subprocess.run(
        [*argv, *more],
        cwd=REPOSITORY,
        env={**os.environ, "INSTANCE": platform.instance},
        capture_output=True,
        text=True,
        check=False,
    )


def test_both_sides_are_measured_and_written(platform: Platform, tmp_path: Path) -> None:
    result = compare(platform, tmp_path)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-direct.json")
    for mode, kept_alive in (("close", False), ("keep-alive", True)):
        for side in ("direct", "gateway"):
            (row,) = record.select(mode=mode, side=side)
            assert (row["requests"], row["wrong"]) == (5000, 0)
            assert bool(row["kept_alive"]) is kept_alive
            assert row["cpu_us"]["replicas"] > 0
            times = list(row["percentiles"].values())
            assert times == sorted(times)
        # Beside requests that go elsewhere the gateway has next to nothing to do.
        (ratio,) = record.ratios(
            "cpu_us.gateway", {"side": "gateway"}, {"side": "direct"}, mode=mode
        )
        assert ratio > 1
    report = (tmp_path / "bench-direct.md").read_text()
    assert "None of 20,000 requests got a wrong answer" in report
    assert "| 99 % served within, ms" in report
    record.rows[0]["wrong"] = 1
    assert Direct().ended(record, published=False) == 1
    assert "1 of 20,000 requests got a wrong answer" in Direct().page(record).markdown


def test_what_is_not_answered_is_not_measured(platform: Platform, tmp_path: Path) -> None:
    result = compare(platform, tmp_path, "--path", "/no-such-route")
    assert result.returncode == 1
    assert "/no-such-route: 2000 of 2000 requests failed" in result.stderr
    assert "curl --http1.0 -i" in result.stderr
    assert list(tmp_path.iterdir()) == []


DATA = Path(__file__).resolve().parent / "data"


def parse(name: str) -> ab.Result:
    return ab.parse((DATA / f"{name}.txt").read_text(), (DATA / f"{name}.csv").read_text())


def test_every_figure_is_read() -> None:
    assert parse("keep-alive") == ab.Result(
        seconds=0.861,
        requests_per_second=23222.95,
        complete=20000,
        failed=0,
        write_errors=0,
        non_2xx=0,
        kept_alive=20000,
        percentiles={
            "50": 4.130,
            "66": 4.574,
            "75": 4.990,
            "80": 5.275,
            "90": 6.379,
            "95": 7.520,
            "98": 8.902,
            "99": 10.299,
            "100": 19.914,
        },
    )


def test_replies_other_than_2xx_are_wrong() -> None:
    result = parse("not-found")
    assert result.failed == 0
    assert result.non_2xx == 200
    assert result.kept_alive == 0
    assert result.wrong == 200


def test_output_without_a_figure_is_an_error() -> None:
    with pytest.raises(ToolError, match="Time taken"):
        ab.parse("This is ApacheBench, Version 2.3", "")
