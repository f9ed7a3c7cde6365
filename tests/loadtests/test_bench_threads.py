"""`bench-threads`: every answer is checked, and each suspect is measured by what it changes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.threads import report, tables
from loadtests.bench.threads.matrix import Cell
from loadtests.bench.threads.offline import Queue
from loadtests.bench.threads.shapes import ONE, SHAPES, Pool
from support import REPOSITORY

pytestmark = pytest.mark.nightly

COMPARED = ("pool of 2", "2 lanes, hashed")

REFUSING = """\
#!{python}
# The same server, which refuses what is dear.
import os, sys
os.execv("{server}", ["{server}", *sys.argv[1:], "--work.max-ops", "5"])
"""


def bench_threads(
    out: Path, server: Path, parts: str, *more: str
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "threads", "--quick", "--profile", "dev"]
    argv += ["--out", str(out), "--server", str(server), "--parts", parts, *more]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def record(out: Path) -> dict:
    return json.loads((out / "bench-threads.json").read_text())


def test_the_matrix_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    only = ["--shapes", ";".join(COMPARED), "--connections", "20"]
    result = bench_threads(tmp_path, binary, "matrix", *only)
    assert result.returncode == 0, result.stderr
    found = record(tmp_path)
    assert found["plan"]["shapes"] == [ONE.name, *COMPARED]
    cells = [Cell(20, count) for count in (0, 10_000)]
    assert tables.measured_cells(found) == cells
    for cell in cells:
        for name in found["plan"]["shapes"]:
            (sample,) = tables.of(found, "matrix", cell.name, name)
            assert sample["requests"] > 0 == sample["wrong"]
            assert sample["server_cores"] > 0 < sample["generator_cores"]
    text = (tmp_path / "bench-threads.md").read_text()
    assert text == report.markdown(found)
    assert result.stdout == text + "\n"
    assert (tmp_path / "bench-threads.svg").read_text().startswith("<svg")


def test_a_refused_request_fails_the_run(binary: Path, tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text(REFUSING.format(python=sys.executable, server=binary))
    server.chmod(0o755)
    only = ["--shapes", COMPARED[1], "--connections", "20", "--iterations", "10000"]
    result = bench_threads(tmp_path, server, "matrix", *only)
    assert result.returncode == 1, result.stderr
    (sample,) = tables.of(record(tmp_path), "matrix", Cell(20, 10_000).name, COMPARED[1])
    # The refusals of the warm-up count too, and an error page is of another length.
    assert sample["faults"]["status"] == sample["wrong"] >= sample["requests"] > 0


def test_what_a_long_queue_holds_is_not_in_the_cache(binary: Path, tmp_path: Path) -> None:
    result = bench_threads(tmp_path, binary, "queue")
    assert result.returncode == 0, result.stderr
    found = record(tmp_path)

    def misses(length: int, held: int) -> float:
        return found["misses"][Queue(length, held).name]["ll_misses"]

    # 2,000 times 4 KiB are more than the cache of 1 MiB that cachegrind has: every line of 64 bytes
    # is missed. Descriptors of 4 bytes all fit.
    assert misses(2_000, 4_096) >= 64
    for length, held in ((1, 0), (1, 4_096), (2_000, 0)):
        assert misses(length, held) < 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")
def test_the_crowd_is_answered_whatever_the_accept_queue(binary: Path, tmp_path: Path) -> None:
    result = bench_threads(tmp_path, binary, "backlog")
    assert result.returncode == 0, result.stderr
    arms = record(tmp_path)["samples"]["backlog"]
    assert len(arms) == 8
    for (sample,) in arms.values():
        assert (sample["requests"], sample["wrong"]) == (20, 0)
        assert sample["kernel"]["ListenOverflows"] == 0


def test_a_speed_up_is_cores_times_cost() -> None:
    cell, two = Cell(20, 10_000), Pool(2)
    samples = {
        ONE.name: {"requests_per_second": 100.0, "server_cores": 0.5},
        two.name: {"requests_per_second": 300.0, "server_cores": 2.0},
    }
    found = {
        "samples": {
            "matrix": {tables.key(cell.name, name): [each] for name, each in samples.items()}
        }
    }
    one, many = (tables.of(found, "matrix", cell.name, shape.name) for shape in (ONE, two))
    assert tables.speed_ups(found, cell, SHAPES[two.name]) == [3.0]
    (cores,) = tables.ratios(tables.cores(many), tables.cores(one))
    (cost,) = tables.ratios(tables.cpu_us(one), tables.cpu_us(many))
    assert cores * cost == pytest.approx(3.0)


@pytest.mark.parametrize(
    "wrong", [["--shapes", "pool of 3"], ["--parts", "luck"], ["--rounds", "0"]]
)
def test_what_is_not_known_is_told(wrong: list[str]) -> None:
    argv = [sys.executable, "loadtests/bench", "threads", *wrong]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert wrong[1] in result.stderr
