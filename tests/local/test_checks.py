"""What `hack/checks` reads from the output of real test runners."""

import subprocess
import sys
from pathlib import Path

import pytest

from checks.reports import Report

# Only developers use it.
pytestmark = pytest.mark.nightly

CRATE = """\
[package]
name = "sample"
edition = "2024"
"""

RUST = """\
#[test]
fn passes() {}

#[test]
#[ignore]
fn is_skipped() {}

#[test]
fn fails() {
    panic!("as it should");
}
"""

PYTHON = """\
import pytest

@pytest.mark.parametrize("way", ["a b", "c - d"])
def test_fails(way):
    assert way == "a b"

def test_skipped():
    pytest.skip("as it should")
"""


def report(argv: list[str], folder: Path) -> Report:
    """What a runner reports that has a failure."""
    result = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    found = Report()
    for line in (result.stdout + result.stderr).splitlines(keepends=True):
        found.read(line)
    return found


def test_cargo(tmp_path: Path) -> None:
    """A failure names the package, the target and the test."""
    (tmp_path / "src").mkdir()
    (tmp_path / "Cargo.toml").write_text(CRATE)
    (tmp_path / "src/lib.rs").write_text(RUST)
    found = report(["cargo", "test", "--offline"], tmp_path)
    assert (found.passed, found.failed, found.skipped) == (1, 1, 1)
    (failure,) = found.failures()
    assert failure.name == "fails"
    assert failure.command == "(cd services && cargo test --locked --lib -- --exact fails)"


def test_pytest(tmp_path: Path) -> None:
    """A failure names the test with its parameters, whatever characters they have."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_sample.py").write_text(PYTHON)
    found = report([sys.executable, "-m", "pytest", "-ra", "tests"], tmp_path)
    assert (found.passed, found.failed, found.skipped) == (1, 1, 1)
    (failure,) = found.failures()
    assert failure.name == "tests/test_sample.py::test_fails[c - d]"
    assert failure.command.endswith(f"pytest '{failure.name}'")
