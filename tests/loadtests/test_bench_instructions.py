"""`bench-instructions`: what is counted is kept, and what takes more is told by its row."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.instructions import run, table
from loadtests.bench.instructions.command import HERE
from support import REPOSITORY

pytestmark = pytest.mark.nightly

ROW = "not found"

on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the table is of x86-64")


def instructions(binary: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "instructions", "--runs", "1", "--requests", "50"]
    argv += ["--rows", ROW, "--server", str(binary), "--out", str(out), *options]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@on_x86_64
def test_a_row_that_takes_more_than_is_kept_is_named(binary: Path, tmp_path: Path) -> None:
    result = instructions(binary, tmp_path)
    assert result.returncode == 0, result.stderr
    before = table.read(tmp_path)["instructions"][ROW]
    # Less than this is no request, more is the start.
    assert 1_000 < before < 1_000_000
    assert f"{before:,}" in (tmp_path / table.MARKDOWN).read_text()
    budget = tmp_path / table.BUDGET
    budget.write_text(budget.read_text().replace(f"= {before}", f"= {before // 2}"))
    result = instructions(binary, tmp_path, "--check")
    assert result.returncode == 1, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.startswith(f"| {ROW}"))
    _, name, committed, now, _ratio, _ = (cell.strip().replace(",", "") for cell in row.split("|"))
    assert (name, int(committed)) == (ROW, before // 2)
    assert abs(int(now) / before - 1) < 0.2
    assert f"times what is committed: {ROW}." in result.stdout
    assert "make bench BENCH=instructions" in result.stdout


def record(instructions: int) -> dict:
    return {"instructions": {"hello": instructions}}


def test_the_limit_is_of_what_is_committed() -> None:
    assert table.fits("hello", 10_300, record(10_000))
    assert not table.fits("hello", 10_301, record(10_000))
    assert not table.fits("new", 1, record(10_000))
    assert "not committed" in table.comparison({"new": 1}, record(10_000))


def test_the_budget_has_every_row() -> None:
    assert list(table.read(HERE)["instructions"]) == list(run.Plan().rows)


def test_another_architecture_is_skipped_with_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert run.check(run.Plan(), tmp_path) == 0
    assert "skipped: the table is of x86-64, this machine is aarch64" in capsys.readouterr().err
