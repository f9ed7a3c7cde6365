"""Benchmarks of the server: every reply is checked, the reports say what figures are made of, and instructions are compared."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench import cli
from loadtests.bench.capacity import cells
from loadtests.bench.capacity.cells import CELLS
from loadtests.bench.capacity.experiment import Capacity
from loadtests.bench.experiment.record import Record
from loadtests.bench.instructions.experiment import Instructions
from loadtests.bench.instructions.rows import FILE, ROWS, Budget
from loadtests.bench.mixed.experiment import QUICK_TIMES, QUICK_USERS, Mixed
from loadtests.bench.mixed.report import KINDS
from loadtests.bench.threads.experiment import Threads
from loadtests.bench.threads.report import LANES, ONE, SIXTEEN
from support.scenarios import bench

pytestmark = pytest.mark.nightly

QUICK = ("--quick", "--profile", "dev")

MODE = "many-many"


def test_every_path_gets_the_same_requests(binary: Path, tmp_path: Path) -> None:
    result = bench("mixed", tmp_path, *QUICK, "--only", MODE, "--server", binary)
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


COMPARED = [shape.name for shape in (ONE, SIXTEEN, LANES)]

REJECTING = """\
#!{python}
# The same server, which rejects expensive requests.
import os, sys
os.execv("{server}", ["{server}", *sys.argv[1:], "--work.max-ops", "5"])
"""


def test_every_shape_is_measured_under_every_load(binary: Path, tmp_path: Path) -> None:
    only = ",".join(["20", "1000", "10k", "1M", *COMPARED])
    result = bench("threads", tmp_path, *QUICK, "--server", binary, "--only", only)
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
    only = f"20,10k,{LANES.name}"
    result = bench("threads", tmp_path, *QUICK, "--server", server, "--only", only)
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


CHOSEN = "work,slots"


def test_a_run_predicts_and_measures(binary: Path, command: Path, tmp_path: Path) -> None:
    programs = ("--server", binary, "--corelane", command)
    result = bench("capacity", tmp_path, *QUICK, "--only", CHOSEN, *programs)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-capacity.json")
    assert (tmp_path / "bench-capacity.md").read_text() == Capacity().page(record).markdown
    work, slots = (record.select(mix=mix)[0] for mix in ("work", "slots"))
    for sample in (work, slots):
        assert sample["wrong"] == 0 < sample["requests"]
        assert sample["knee"]["measured"] > 0 < sample["p99"]["measured"]
        assert sample["rate"] == pytest.approx(cells.USED * sample["knee"]["predicted"])
    assert (work["limit"], slots["limit"]) == ("lanes", "slots")
    # A request of the slots' cell waits for 4 ms at least, on one of 4 slots.
    assert slots["knee"]["predicted"] < 1000
    assert slots["latency_ms"]["all"]["0"] > 4


def sample(knee: float = 1.0, p99: float = 1.0, **changes: object) -> dict:
    """A sample whose predictions are these times what was measured."""
    found = {
        "limit": "lanes",
        "knee": {"predicted": 1000 * knee, "measured": 1000.0},
        "p99": {"predicted": 5 * p99, "measured": 5.0},
        "closed_form_p99_ms": 6.0,
        "rate": 700.0,
        "p99_ms": 5.0,
        "lag_p99_ms": 0.05,
        "generator_cores": 0.1,
        "others_cores": 0.0,
        "stolen_cores": 0.0,
        "busy_at_knee": 1.0,
        "busy_at_rate": 0.7,
        "handler_at_low": 1e-3,
        "handler_at_knee": 1e-3,
        "service_at_low": 2e-3,
        "service_at_rate": 2e-3,
        "requests": 5000,
        "wrong": 0,
    }
    return {**found, **changes}


def report(**samples: list[dict]) -> str:
    """The report of these mixes, by the samples of their rounds."""
    machine = {"date": "", "cpu": "", "cores": 2, "kernel": "", "sources": ""}
    record = Record("capacity", {"profile": "release"}, machine=machine, facts={"outside_us": 9.0})
    for mix, found in samples.items():
        record.rows += [{**row, "mix": mix, "round": n} for n, row in enumerate(found, 1)]
    return Capacity().page(record).markdown


def test_the_median_round_decides() -> None:
    rounds = [sample(0.95), sample(1.02), sample(1.5)]
    assert cells.error(rounds, "knee") == pytest.approx(0.02)
    assert cells.met(rounds, "knee")
    assert not cells.met([sample(0.95), sample(1.2), sample(1.5)], "knee")
    # Too low is as wrong as too high.
    assert not cells.met([sample(0.89)], "knee")
    assert cells.met([sample(p99=0.81)], "p99")
    assert not cells.met([sample(p99=0.79)], "p99")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"others_cores": 0.04, "stolen_cores": 0.02}, "took 0.06 cores"),
        ({"generator_cores": 0.9}, "kept 90% of its CPU busy"),
        ({"lag_p99_ms": 2.0}, "late by 2.00 ms"),
        ({"busy_at_knee": 0.5}, "busy for 50%"),
        ({"handler_at_knee": 2e-3}, "held their lane at the knee for 200%"),
        ({"service_at_rate": 3e-3}, "kept their slot at the rate for 150%"),
    ],
)
def test_a_miss_is_told_with_what_explains_it(changes: dict, words: str) -> None:
    text = report(work=[sample(p99=2.0, **changes)], mixed=[sample()])
    (note,) = (line for line in text.splitlines() if line.startswith("- work, missed:"))
    assert words in note
    assert "p99: within 20% in 1 of 2 mixes; missed in work." in text
    assert "knee: within 10% in 2 of 2 mixes." in text


def test_a_miss_without_a_reason_is_told_as_well() -> None:
    text = report(work=[sample(knee=2.0)])
    assert "- work, missed: the measurement shows no reason." in text


def test_calibration_loads_are_low() -> None:
    rates = {cell.name: cell.calibration_rate() for cell in CELLS}
    # Of 1,000 of 1 ms on a lane, of 2.5 ms on two lanes in the mean, of 4 slots that are held for 6.2 ms.
    assert rates["work"] == pytest.approx(1000 / 6)
    assert rates["sizes-two"] == pytest.approx(2 / 2.5e-3 / 6)
    assert rates["slots"] == pytest.approx(4 / 6.2e-3 / 6)


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
