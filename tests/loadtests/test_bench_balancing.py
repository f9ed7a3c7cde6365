"""The figures of `bench balancing`, and its replica of a virtual CPU."""

import itertools
from pathlib import Path

import pytest

from loadtests.bench.balancing import scenarios
from loadtests.bench.balancing.experiment import Balancing
from loadtests.bench.balancing.scenarios import REFERENCE, SCENARIOS, SERVICE_MS, SLO_MS
from loadtests.bench.experiment.record import Record
from support.scenarios import bench

pytestmark = pytest.mark.nightly

SHAPES = ("3x1", "4x3")
SEEDS = (1, 2)


@pytest.mark.parametrize(
    ("p99", "expected"),
    [
        ({40: 20.0, 50: 30.0}, 0.0),
        ({40: 2.0, 50: 3.0}, 50.0),
        # Halfway in the logarithm.
        ({40: 2.0, 50: 5.0, 60: 20.0}, 55.0),
        # Measured beyond the first miss for comparison only.
        ({40: 5.0, 50: 20.0, 70: 9.0}, 45.0),
    ],
    ids=["below", "all of it", "between", "the first miss ends it"],
)
def test_capacity_is_where_the_p99_leaves_the_objective(
    p99: dict[float, float], expected: float
) -> None:
    assert scenarios.capacity(p99) == pytest.approx(expected)


def test_each_kind_is_judged_by_its_own_time() -> None:
    fast, slow = SCENARIOS["mixed"].service_ms
    assert SCENARIOS["mixed"].slowdown(2 * fast, 3 * slow) == pytest.approx(3)
    assert SCENARIOS["mixed"].slowdown(9 * fast, 3 * slow) == pytest.approx(9)
    assert SCENARIOS["half"].slowdown(50.0, 0.0) == pytest.approx(5)


def answered(latency: dict[float, float]) -> list[scenarios.Answer]:
    """Answers each 10 ms of 10 s; what is due from a time on takes so long."""
    found = []
    for due in range(0, 10_000, 10):
        begun = max(begin for begin in latency if begin * 1000 <= due)
        found.append((float(due), latency[begun], False, True))
    return found


def test_recovery_is_three_good_windows_in_a_row() -> None:
    over = 2.0
    assert scenarios.recovery(answered({0: 10.0}), over, 10.0) == 0.0
    assert scenarios.recovery(answered({0: 500.0, 3: 10.0}), over, 10.0) == 1.0
    # Good for two windows only at first.
    relapse = answered({0: 10.0, 3: 500.0, 4: 10.0})
    assert scenarios.recovery(relapse, over, 10.0) == 2.0
    assert scenarios.recovery(answered({0: 500.0}), over, 10.0) is None


def test_a_wrong_answer_is_no_recovery() -> None:
    found = [(due, took, slow, due >= 4000) for due, took, slow, _ in answered({0: 1.0})]
    assert scenarios.recovery(found, 2.0, 10.0) == 2.0


def test_what_was_never_answered_counts_as_the_generators_patience() -> None:
    columns = {"due_ms": [1.0], "latency_ms": [2.0], "work": [0], "right": [1]}
    found = scenarios.answers({"samples": columns, "faults": {"silence": 1}})
    assert scenarios.percentile([took for _, took, _, _ in found], 0.99) == scenarios.LOST_MS


def row(scenario: str, shape: str, policy: str, number: int, load: float) -> dict:
    """Round robin is thirty times as slow as the others, which miss the objective at 80%."""
    p99 = SLO_MS * load / 75 * (30 if policy == "round-robin" else 1)
    return {
        "scenario": scenario,
        "shape": shape,
        "policy": policy,
        "round": number,
        "load": load,
        "mixed": SCENARIOS[scenario].mixed,
        "requests": 1000,
        "wrong": 5,
        "p50": 10.0,
        "p99": p99,
        "p99_fast": p99,
        "p99_slow": 0.0,
        "slowdown": p99 / SERVICE_MS,
        "recovery": None if policy == "round-robin" else 0.5,
        "gateway_us": 50.0,
        "lag_p99": 1.0,
        "busy": 0.5,
        "stolen": 0.0,
    }


def test_the_report_judges_by_the_target() -> None:
    machine = {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "abc"}
    record = Record("balancing", {"profile": "release"}, machine=machine)
    record.rows = [
        row(name, shape, policy, number, load)
        for name, shape, number in itertools.product(SCENARIOS, SHAPES, SEEDS)
        for policy in scenarios.POLICIES
        if name in scenarios.ONLY.get(policy, (name,))
        for load in SCENARIOS[name].ladder or (SCENARIOS[name].load,)
    ]
    text = Balancing().page(record).markdown
    assert f"{REFERENCE}% load: the p99 of round-robin is 30.0 (30.0–30.0) times" in text
    assert "meets the target of at least 10" in text
    assert "load-aware carries 1.00 (1.00–1.00) of what least-request does" in text
    assert "does not replace the default" in text
    assert "By the former objective" in text
    for scenario in SCENARIOS.values():
        assert scenario.title in text


def test_a_run_measures_every_policy_under_the_same_arrivals(tmp_path: Path) -> None:
    plan = ["--only", "2x1,failing", "--rounds", "1", "--profile", "dev"]
    result = bench("balancing", tmp_path, *plan)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-balancing.json")
    measured = {p for p in scenarios.POLICIES if "failing" in scenarios.ONLY.get(p, ("failing",))}
    assert {found["policy"] for found in record.rows} == measured
    assert len({found["requests"] for found in record.rows}) == 1
    # The replica that fails fast was asked, and not all the time.
    assert all(0 < found["wrong"] < found["requests"] for found in record.rows)
    assert "A replica fails fast" in (tmp_path / "bench-balancing.md").read_text()
