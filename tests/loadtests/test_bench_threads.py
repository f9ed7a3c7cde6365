"""`bench threads`: every reply is checked, and a speed-up is split into cores and CPU time."""

import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.experiment.record import Record
from loadtests.bench.threads.experiment import Threads
from loadtests.bench.threads.report import LANES, ONE, SIXTEEN
from support import REPOSITORY

pytestmark = pytest.mark.nightly

COMPARED = [shape.name for shape in (ONE, SIXTEEN, LANES)]

REJECTING = """\
#!{python}
# The same server, which rejects expensive requests.
import os, sys
os.execv("{server}", ["{server}", *sys.argv[1:], "--work.max-ops", "5"])
"""


def bench(out: Path, server: Path, *only: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "threads", "--quick", "--profile", "dev"]
    argv += ["--out", out, "--server", server, "--only", ",".join(only)]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_every_shape_is_measured_under_every_load(binary: Path, tmp_path: Path) -> None:
    result = bench(tmp_path, binary, "20", "1000", "10k", "1M", *COMPARED)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-threads.json")
    for setting, loads in (("matrix", 4), ("one-cpu", 2), ("neighbours", 1)):
        rows = record.select(setting=setting)
        assert sorted(row["shape"] for row in rows) == sorted(COMPARED * loads)
    assert record.total("requests") > 0 == record.total("wrong")
    assert record.total("server_cores") > 0 < record.total("generator_cores")
    for row in record.rows:
        # The neighbours are no disturbance.
        assert ("others_cores" in row) == (row["setting"] != "neighbours")
    assert (tmp_path / "bench-threads.md").read_text() == Threads().page(record).markdown
    assert (tmp_path / "bench-threads.svg").is_file()


def test_a_rejected_request_fails_the_run(binary: Path, tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text(REJECTING.format(python=sys.executable, server=binary))
    server.chmod(0o755)
    result = bench(tmp_path, server, "20", "10k", LANES.name)
    assert result.returncode == 1, result.stderr
    (row,) = Record.read(tmp_path / "bench-threads.json").rows
    # Those of the warm-up count too, and an error page is of another length.
    assert row["faults"]["status"] == row["wrong"] >= max(1, row["requests"])


def test_a_speed_up_is_split_into_cores_and_cpu_time() -> None:
    load = {"setting": "matrix", "connections": "20", "iterations": "10k", "wrong": 0}
    machine = {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "x"}
    record = Record("threads", {"profile": "release"}, machine=machine, cpus=[0, 1])
    figures = ("requests_per_second", "server_cores", "cpu_us")
    for shape, rounds in {
        ONE.name: [(100.0, 0.5, 5000.0), (300.0, 0.5, 5000.0)],
        SIXTEEN.name: [(300.0, 2.0, 20_000 / 3), (300.0, 0.5, 5000.0)],
    }.items():
        for number, values in enumerate(rounds, 1):
            found = dict(zip(figures, values, strict=True))
            record.rows.append({**load, **found, "shape": shape, "requests": 10, "round": number})
    text = Threads().page(record).markdown
    # In times of the same round: 3 and 1.
    assert "The largest speed-up over one thread on 2 CPUs is 2.00 (1.00–3.00): pool of 16" in text
    assert "That shape has 2.50 (1.00–4.00) times the cores, at 1.17 (1.00–1.33) times" in text
