"""`bench-moving`: connections start where they are told to, what is parked and moved is counted by the server,
and every figure is told with what it means."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.experiment import builds
from loadtests.bench.experiment.measurement import Work
from loadtests.bench.moving import busy, cost, hot, judging, often, reading, report
from loadtests.bench.moving.bench import QUICK, Bench, Programs, Size
from support import REPOSITORY

CPUS = sorted(os.sched_getaffinity(0))

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(len(CPUS) < 2, reason="two lanes take two CPUs"),
]

SMALL = Size(rounds=1, seconds=0.1, warm_up=0.05, looks=(1,), turns=1, many=100)


def bench_moving(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "moving", *arguments]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def bench(binary: Path) -> Bench:
    """What a part takes, with the usual builds of the tests; nothing here is about speed."""
    generator = builds.build(builds.BENCH, ["load-generator"], "dev") / "load-generator"
    work = Work(ops_per_ms=1000.0, hello_us=10.0)
    return Bench(Programs(binary, generator, {}), (CPUS[0], CPUS[1]), SMALL, work)


def test_a_run_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    chosen = ["--quick", "--only", "cost", "--profile", "dev", "--server", str(binary)]
    result = bench_moving(*chosen, "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "bench-moving.json").read_text())
    results = record["results"]["cost"]
    assert list(results) == cost.NAMES
    requests = QUICK.resting * QUICK.cycles
    for name, (sample,) in results.items():
        assert (sample["requests"], sample["wrong"]) == (requests, 0)
        # One that waits for its turn for long may be parked, woken and parked again.
        assert (sample["parkings"] >= requests) == (cost.AWAKE not in name)
        assert (sample["moves"] > 0) == (cost.MOVING in name)
    text = (tmp_path / "bench-moving.md").read_text()
    assert text == report.markdown(record)
    assert result.stdout == text + "\n"
    assert "## What a park, a wake and a move cost" in text
    assert f"None of {requests * len(cost.NAMES):,} requests got a wrong answer" in text
    assert (tmp_path / "bench-moving.svg").read_text().startswith("<svg")


def test_many_connections_are_parked_before_they_are_asked(bench: Bench) -> None:
    names, numbers, samples = zip(*often.measured(bench), strict=True)
    assert set(names) == set(often.NAMES)
    assert set(numbers) == {1}
    for sample in samples:
        assert sample["latency_us"]["hello"]["count"] == sample["requests"] > 0 == sample["wrong"]


def test_connections_begin_on_the_lanes_that_are_wanted(bench: Bench) -> None:
    stuck, _, even, _ = hot.STARTS
    seen = [hot.sample(bench, hot.LOADS["closed"], start, 1) for start in (stuck, even)]
    assert [list(sample["lanes"]) for sample in seen] == [["0"], ["0", "1"]]
    assert [sample["moves_before"] + sample["moves"] for sample in seen] == [0, 0]
    assert [sample["wrong"] for sample in seen] == [0, 0]


def costs(*cpu_us: float, **more: int) -> list[dict]:
    """Samples of one arm, round by round."""
    one = {"requests": 1000, "wrong": 0, "parkings": 0, "moves": 0, "seconds": 0.1, **more}
    return [{**one, "cpu_us": used} for used in cpu_us]


def cost_results(moves: int) -> dict[str, list[dict]]:
    arms = {
        cost.AWAKE: costs(10.0, 30.0, 12.0),
        cost.PARKS: costs(12.0, 31.0, 15.0, parkings=1000),
        cost.MOVING: costs(12.8, 32.0, 16.2, parkings=1000, moves=moves),
    }
    return {f"{over}: {arm}": samples for over in cost.SPREADS for arm, samples in arms.items()}


def test_a_park_and_a_move_are_differences_within_a_round() -> None:
    # The medians of all rounds, 12 and 15 µs, would say 3 of a park.
    results = cost_results(moves=200)
    for over in cost.SPREADS:
        assert cost.of_parking(results, over) == pytest.approx([2.0, 1.0, 3.0])
        # 0.8 µs of each of 1,000 requests are those of 200 moves.
        assert cost.of_moving(results, over) == pytest.approx([4.0, 5.0, 6.0])
    told = reading.PARTS["cost"](results)
    assert [sentence.partition(":")[0].lower() for sentence in told] == list(cost.SPREADS)
    assert all("over 600 moves, which meets the target of 10" in sentence for sentence in told)


def test_a_dear_move_and_none_are_told() -> None:
    assert "misses the target" in reading.PARTS["cost"](cost_results(moves=20))[0]
    assert "is not known" in reading.PARTS["cost"](cost_results(moves=0))[0]


@pytest.mark.parametrize(
    ("percent", "said", "more"),
    [
        ((0.5, -0.4, 0.2), "shown", False),
        ((3.1, 3.5, 2.8), "not so: dearer by more", False),
        ((-3.1, -3.5, -2.8), "not so: cheaper by more", False),
        ((-9.0, 0.5, 0.1), "undecided; no dearer by as much", True),
        ((9.0, -8.0, 0.1), "undecided", True),
    ],
)
def test_busy_connections_are_judged_by_the_interval(
    percent: tuple[float, ...], said: str, more: bool
) -> None:
    def samples(of: list[float]) -> list[dict]:
        return [{"cpu_us": one, "requests_per_second": 1e6 / one} for one in of]

    base = [10.0, 12.0, 9.0, 30.0] * 3
    changed = [one * (1 + percent[index % len(percent)] / 100) for index, one in enumerate(base)]
    results = {"one lane, hello: off": samples(base), "one lane, hello: active": samples(changed)}
    (sentence,) = reading.PARTS["busy"](results)
    assert sentence.startswith("Busy connections, one lane, hello, active: CPU per request")
    assert sentence.endswith(f"in 12 rounds. Within ± 2%: **{said}**.")
    assert judging.decided(results) == (not more)


def test_busy_connections_are_asked_in_turns_and_return_from_hyper(bench: Bench) -> None:
    found = list(busy.measured(bench))
    samples = {name: sample for name, _, sample in found}
    assert [name for name in busy.NAMES if name in samples] == busy.NAMES
    assert {number for _, number, _ in found} == {1}
    for name, sample in samples.items():
        assert sample["wrong"] == 0 < sample["requests"]
        assert len(sample["slices"]) == 4
        if "1 in 10 with a body" not in name or busy.BY_HYPER.name in name:
            assert sample["returns"] == 0, name
        elif sample["requests"] >= 16 * busy.CONNECTIONS * len(sample["slices"]):
            # In some slice some connection had a body and then enough requests without.
            assert sample["returns"] > 0, name


def test_an_unknown_part_is_refused() -> None:
    result = bench_moving("--only", "hot,fast")
    assert result.returncode == 64
    assert "fast: there are hot, gateway, cost, busy, often" in result.stderr
