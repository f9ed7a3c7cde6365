"""Merging runner results: sums, extremes, and quantiles that are never too low."""

import json
import os
import random
import statistics
import subprocess
import sys

import pytest

from loadtests.cluster import merge
from loadtests.cluster.runners import Ended, Runner, find_summary
from loadtests.record import ALL, Checks, Part, Route
from stack import REPOSITORY

pytestmark = pytest.mark.fast


def quantile(sorted_values: list[float], share: float) -> float:
    """Interpolated like k6's."""
    place = share * (len(sorted_values) - 1)
    low = int(place)
    high = min(low + 1, len(sorted_values) - 1)
    return sorted_values[low] + (sorted_values[high] - sorted_values[low]) * (place - low)


def route(latencies: list[float], failed: int = 0) -> Route:
    latencies = sorted(latencies)
    return Route(
        len(latencies),
        failed,
        {
            "min": latencies[0],
            "mean": statistics.fmean(latencies),
            "p50": quantile(latencies, 0.5),
            "p99": quantile(latencies, 0.99),
            "max": latencies[-1],
        },
    )


def part(routes: dict[str, Route], **more: object) -> Part:
    whole = routes[ALL]
    return Part(ALL, 10.0, whole.requests, whole.failed, whole.requests / 10, routes=routes, **more)


@pytest.mark.parametrize("seed", range(20))
def test_a_merged_record_says_of_all_requests_only_what_is_so(seed: int) -> None:
    chance = random.Random(seed)
    # Runners of different speed.
    measured = [
        [chance.lognormvariate(chance.uniform(0, 3), 1) for _ in range(chance.randint(200, 2000))]
        for _ in range(chance.randint(2, 6))
    ]
    everything = route([value for of_runner in measured for value in of_runner])
    (merged,) = merge.parts([[part({ALL: route(each)})] for each in measured])
    found = merged.routes[ALL]
    assert found.requests == merged.requests == everything.requests
    for key in ("min", "mean", "max"):
        assert found.latency_ms[key] == pytest.approx(everything.latency_ms[key])
    for key in ("p50", "p99"):
        best = merged.figures[f"{key} of the best runner"].value
        # Only the interpolation may differ.
        assert best * 0.98 <= everything.latency_ms[key] <= found.latency_ms[key] * 1.02


def test_what_is_counted_is_added() -> None:
    one, other = (
        part(
            {ALL: route([1.0, 2.0], failed=1), name: route([1.0, 2.0], failed=1)},
            dropped=3,
            checks=Checks(5, 1, [f"{name}: body (1 of 2)"]),
        )
        for name in ("hello", "root")
    )
    (merged,) = merge.parts([[one], [other]])
    assert (merged.requests, merged.failed, merged.dropped) == (4, 2, 6)
    assert merged.requests_per_second == 0.4
    assert (merged.checks.passed, merged.checks.failed) == (10, 2)
    assert merged.checks.failed_names == ["hello: body (1 of 2)", "root: body (1 of 2)"]
    assert {name: each.requests for name, each in merged.routes.items()} == {
        ALL: 4,
        "hello": 2,
        "root": 2,
    }


SUMMARY = json.dumps({"metrics": {"http_reqs": {}}, "root_group": {}})


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (f"time=1 msg=a\n{SUMMARY}\n", True),
        # k6 prints the reason after the summary, which lacks a newline.
        (
            f'{SUMMARY}time="2" level=error msg="thresholds on metrics \'checks\' have been crossed"\n',
            True,
        ),
        (f"{SUMMARY}\n{{not JSON}}\n", True),
        (SUMMARY[:-1], False),
        ('{"metric": 1}\n', False),
        ("", False),
    ],
)
def test_a_summary_is_found_in_a_log_if_it_is_whole(log: str, found: bool) -> None:
    assert (find_summary(log) == json.loads(SUMMARY)) is found


@pytest.mark.parametrize(
    ("complete", "codes", "summaries", "status"),
    [
        (True, [0, 0], 2, 0),
        (False, [0, 99], 2, 99),
        (False, [99, 107], 2, 1),
        (False, [99, None], 1, 1),
        (False, [0, 0], 2, 1),
        # A missing summary means failure.
        (True, [0, 0], 1, 1),
    ],
)
def test_the_exit_status_is_that_of_the_worst(
    complete: bool, codes: list[int | None], summaries: int, status: int
) -> None:
    runners = [Runner(index, REPOSITORY, exit_code=code) for index, code in enumerate(codes)]
    assert merge.exit_code(Ended(runners, complete), summaries, len(codes)) == status


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "nosuch: choose one of"),
        (["smoke", "--runners", "0"], "--runners 0: give a number from 1 to 200"),
        (["smoke", "--values", "/nowhere"], "--values /nowhere: there is no such file"),
        (["smoke", "--rate", "many"], "--rate: invalid int value"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], words: str) -> None:
    result = subprocess.run(
        [sys.executable, "loadtests", "cluster", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == os.EX_USAGE
    (line,) = result.stderr.splitlines()
    assert words in line
