"""Turns requests into records: curves, bins, samples and failures."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loadtests import record
from loadtests.record import (
    ALL,
    Checks,
    Figure,
    OverTime,
    Part,
    Route,
    Run,
    Server,
    Target,
    quantiles,
)
from loadtests.report import collect
from loadtests.report.collect import Collector
from loadtests.report.progress import Progress

pytestmark = pytest.mark.fast

HEAD = (
    "metric_name,timestamp,metric_value,check,error_code,expected_response,group,method,name,"
    "scenario,status,extra_tags,metadata"
)


def sample(metric: str, at: float, value: float, **tags: str) -> str:
    """A line of k6's JSON output."""
    names = ("check", "error_code", "expected_response", "group", "method", "name", "scenario")
    columns = [tags.get(name, "") for name in names]
    return ",".join(
        [metric, f"{at * 1e6:.0f}", f"{value:.6f}", *columns, "200", tags.get("more", ""), ""]
    )


def read(lines: list[str], tmp_path: Path, started: float = 100.0) -> Collector:
    collector = Collector()
    collect.read([HEAD, *lines], started, collector, Progress("test", tmp_path / "progress.log"))
    return collector


def test_routes_add_up_to_all() -> None:
    collector, chance = Collector(), random.Random(4)
    for number in range(4000):
        route = ("hello", "work")[number % 2]
        collector.request("", route, number / 1000, chance.expovariate(1), number % 100 == 0)
    (part,) = collector.parts()
    assert part.requests == part.routes[ALL].requests == 4000
    assert part.failed == part.routes[ALL].failed == part.routes["hello"].failed == 40
    assert part.routes["work"].failed == 0
    over = part.over_time
    assert over[ALL].t == [0, 1, 2, 3]
    assert over[ALL].requests == [1000] * 4
    assert over[ALL].failed == [10] * 4
    assert over["hello"].requests == [500] * 4
    assert max(over[ALL].max_ms) == pytest.approx(part.routes[ALL].latency_ms["max"], abs=1e-3)
    for name, curve in part.percentiles.items():
        values = [ms for _, ms in curve]
        assert values == sorted(values)
        median = dict(map(tuple, curve))[50.0]
        assert median == pytest.approx(part.routes[name].latency_ms["p50"], abs=1e-3)


def test_a_part_in_slices_lasts_as_long_as_these() -> None:
    collector = Collector()
    for span, begin in (("01", 0.0), ("04", 30.0)):
        for number in range(101):
            collector.request("direct", "root", begin + number / 10, 0.0, False, span)
    (part,) = collector.parts()
    assert part.seconds == 20.0
    assert part.requests_per_second == pytest.approx(10.1)


def test_samples_of_k6_are_read(tmp_path: Path) -> None:
    tags = {"name": "hello", "scenario": "01-direct", "more": "part=direct&testid=x"}
    setup = {"name": "login", "group": "::setup", "expected_response": "false"}
    collector = read(
        [
            sample("vus", 100, 2),
            # Recorded before the first request, so its part is known only later.
            sample("dropped_iterations", 100.1, 3, scenario="01-direct"),
            sample("http_req_duration", 100.2, 900, **setup),
            sample("http_reqs", 101, 1, expected_response="true", **tags),
            sample("http_req_duration", 101, 500, expected_response="true", **tags),
            sample("http_req_duration", 102, 250, expected_response="false", **tags),
            sample("checks", 102, 1, check="hello: body", **tags),
            sample("checks", 102, 0, check="hello: body", **tags),
            "a line of somebody else",
        ],
        tmp_path,
    )
    (part,) = collector.parts()
    assert (part.name, part.requests, part.failed, part.dropped) == ("direct", 2, 1, 3)
    assert part.scatter == {"hello": [[0.5, 500.0], [1.75, 250.0]]}
    assert list(part.routes) == [ALL, "hello"]
    assert (part.checks.passed, part.checks.failed) == (1, 1)
    assert part.checks.failed_names == ["hello: body (1 of 2)"]


def test_quantiles_are_between_the_two_nearest() -> None:
    assert quantiles([1.0, 2.0, 4.0], (0, 25, 50, 75, 100)) == [1.0, 1.5, 2.0, 3.0, 4.0]
    assert quantiles([7.0], (0, 50, 100)) == [7.0] * 3


STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_run(name: str = "load") -> Run:
    part = Part(
        name="direct",
        seconds=2.0,
        requests=3,
        failed=1,
        requests_per_second=1.5,
        dropped=4,
        checks=Checks(5, 1, ["hello: body (1 of 6)"]),
        routes={"all": Route(3, 1, {"p50": 1.5, "p99.9": 4.0})},
        percentiles={"all": [[0, 1.0], [100, 4.0]]},
        over_time={"all": OverTime([0, 1], [3, 0], [1, 0], [1.5, None], [4.0, None], [4.0, None])},
        scatter={"all": [[0.25, 1.5]]},
        figures={"knee_requests_per_second": Figure(900, "1/s")},
    )
    return Run(
        name=name,
        tool="k6",
        tool_version="1.8.1",
        passed=False,
        exit_code=99,
        failed_thresholds=["checks: rate==1"],
        started=STARTED.isoformat(),
        seconds=2.0,
        target=Target("http://127.0.0.1:1", "direct", ["server-0"]),
        settings={"rate": 2},
        machine={"cores": 2},
        load_average_before=[0.1, 0.2, 0.3],
        parts=[part],
        server=Server({"queue": {"p50_ms": [[0, 0.1]]}}, [[0, 0.5]], [[0, 2.0]], [[0, 90.0]]),
        k6={"metrics": {}},
    )


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = record.create_folder(tmp_path, "load", STARTED)
    assert folder.name == "load-20260102T030405Z"
    record.write(a_run(), folder)
    assert record.read(folder) == record.read(folder / "run.json") == a_run()
