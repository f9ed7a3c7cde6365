"""`bench-instructions`: what is counted is kept, and what takes more is told by its row."""

import platform
import subprocess
from pathlib import Path

import pytest

from loadtests.bench import cli
from loadtests.bench.experiment.record import Record
from loadtests.bench.instructions.experiment import Instructions
from loadtests.bench.instructions.rows import FILE, ROWS, Budget
from support.processes import bench

pytestmark = pytest.mark.nightly

ROW = "not found"

on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the table is of x86-64")


def instructions(binary: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    plan = ("--rounds", "1", "--requests", "50", "--only", ROW)
    return bench("instructions", out, *plan, "--server", binary, *options)


@on_x86_64
def test_a_row_that_takes_more_than_is_kept_is_named(binary: Path, tmp_path: Path) -> None:
    result = instructions(binary, tmp_path)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-instructions.json")
    options = record.plan["options"]
    options["budget"] = budget = tmp_path / "budget.toml"
    options["update"] = True
    assert Instructions().ended(record) == 0
    kept = Budget.read(budget)
    before = kept.instructions[ROW]
    # Less than this is no request, more is the start.
    assert 1_000 < before < 1_000_000
    assert f"{before:,}" in (tmp_path / "bench-instructions.md").read_text()
    Budget(kept.toolchain, {ROW: before // 2}).write(budget)
    result = instructions(binary, tmp_path, "--check", "--budget", str(budget))
    assert result.returncode == 1, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.startswith(f"| {ROW}"))
    _, name, committed, now, _ratio, _ = (cell.strip().replace(",", "") for cell in row.split("|"))
    assert (name, int(committed)) == (ROW, before // 2)
    assert abs(int(now) / before - 1) < 0.2
    assert f"times what is committed: {ROW}." in result.stdout
    assert "instructions --update" in result.stdout
    # Another compiler makes other instructions.
    Budget({**kept.toolchain, "rustc": "1.0.0"}, {ROW: before // 2}).write(budget)
    result = instructions(binary, tmp_path, "--check", "--budget", str(budget))
    assert result.returncode == 0, result.stderr
    assert "where the table has 1.0.0" in result.stdout


def test_the_limit_is_of_what_is_committed() -> None:
    known = Budget({}, {"hello": 10_000})
    assert known.fits("hello", 10_300)
    assert not known.fits("hello", 10_301)
    assert not known.fits("new", 1)


def test_the_budget_has_every_row() -> None:
    assert list(Budget.read(FILE).instructions) == [row.name for row in ROWS]


def test_another_architecture_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert cli.main(["instructions", "--check"]) == 0
    assert "skipped: the table is of x86-64, this machine is aarch64" in capsys.readouterr().err
