"""`bench capacity`: each cell is predicted and measured, and a miss is told with what explains it."""

import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.capacity import cells
from loadtests.bench.capacity.cells import CELLS
from loadtests.bench.capacity.experiment import Capacity
from loadtests.bench.experiment.record import Record
from support import REPOSITORY

pytestmark = pytest.mark.nightly

CHOSEN = "work,slots"


def test_a_run_predicts_and_measures(binary: Path, command: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "loadtests/bench", "capacity", "--quick", "--only", CHOSEN]
    argv += ["--server", binary, "--corelane", command, "--profile", "dev", "--out", tmp_path]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
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
