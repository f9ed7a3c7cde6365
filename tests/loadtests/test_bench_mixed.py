"""`bench mixed`: every user gets what it saved, on every path, and a failed request fails the run."""

import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.experiment.record import Record
from loadtests.bench.mixed.experiment import QUICK_TIMES, QUICK_USERS, Mixed
from loadtests.bench.mixed.report import KINDS
from support import REPOSITORY

pytestmark = pytest.mark.nightly

MODE = "many-many"


def test_every_path_gets_the_same_requests(binary: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "loadtests/bench", "mixed", "--quick", "--only", MODE]
    argv += ["--server", binary, "--profile", "dev", "--out", tmp_path]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-mixed.json")
    assert len(record.select(loop="closed")) == 4
    each = QUICK_USERS * QUICK_TIMES
    for row in record.select(loop="closed"):
        assert {kind: row["latency_ms"][kind]["count"] for kind in KINDS} == dict.fromkeys(
            KINDS, each
        )
        # Only the server names its lane: nobody answered in its stead.
        assert sum(row["lanes"].values()) == row["requests"]
        assert ("gateway" in row["cpu_us"]) == (row["path"] == "gateway")
        assert ("database" in row["cpu_us"]) == (row["database"] == "postgres")
        assert row["server"]["project handler"] > 0 < row["server"]["load, ms"]
    for row in record.select(loop="pages"):
        assert set(row["latency_ms"]) == {"page", "all"}
    assert (tmp_path / "bench-mixed.md").read_text() == Mixed().page(record).markdown
    assert (tmp_path / "bench-mixed.svg").is_file()


SECONDS = {
    "one-lane": [4.0, 9.0, 6.0],
    "one-slot": [10.0, 10.0, 10.0],
    "many-many": [2.0, 3.0, 4.0],
}


def record(faults: dict[str, int] | None = None) -> Record:
    """A record such as a run on SQLite makes; every loop has these faults."""
    machine = {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "x"}
    facts = {"users": 10, "times": 10, "sync_ms": 1.0}
    found = Record("mixed", {"profile": "release"}, machine=machine, facts=facts)
    wrong = sum((faults or {}).values())
    for mode, rounds in SECONDS.items():
        for number, seconds in enumerate(rounds, 1):
            for loop, p99 in (("closed", 4.0), ("open", 3.0), ("pages", 2.0)):
                row = {"database": "sqlite", "path": "direct", "mode": mode, "loop": loop}
                row |= {"round": number, "seconds": seconds, "requests": 1000, "wrong": wrong}
                row |= {"faults": faults or {}, "latency_ms": {"page": {"99": p99}, "all": {}}}
                found.rows.append(row)
    return found


def test_modes_are_compared_within_a_round() -> None:
    text = Mixed().page(record()).markdown
    # The medians of all rounds, 6 and 3, would say the same; the brackets would not.
    assert "many slots: 2.00 (1.50–3.00) on SQLite, direct; published are 3.36" in text
    assert "is 3.00 (3.00–3.00) ms, 1.50 (1.50–1.50) times that among as many pages" in text


def test_failed_requests_are_reported_and_fail_the_run() -> None:
    failed = record({"save: status 503": 1})
    assert Mixed().failed(failed) == 27
    text = Mixed().page(failed).markdown
    assert "Failed requests by kind and cause: save: status 503 27." in text
    assert "27 of 27,000 requests got a wrong answer or none." in text
