"""`bench field --only scaling`: the laws, and each of its parts once with the fewest and smallest sizes."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.bench.experiment import builds
from loadtests.bench.field.bench import Bench, Plan
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.field.scaling import connections, cores, fleet, model, plan, pods, routes, run
from loadtests.bench.field.scaling.figures import Series
from loadtests.bench.field.scaling.model import Fleet, Growth, Law
from loadtests.bench.field.scaling.routers import Programs
from tools import resolve

pytestmark = pytest.mark.nightly

TINY = replace(
    plan.QUICK,
    seconds=0.1,
    warm_up=0.05,
    connections=(1, 8),
    routes=(10, 200),
    pods=(1, 3),
    updates=(3,),
    gateways=2,
    contenders=("floor",),
)


# The laws.


def test_a_speed_up_on_two_cpus_leaves_room_for_two_laws() -> None:
    most, least = model.between(1.9)
    assert most.speed_up(2) == pytest.approx(1.9) == least.speed_up(2)
    assert most.coherence == 0 == least.contention
    # Amdahl: never more than 1 / contention.
    assert most.speed_up(1e9) == pytest.approx(1 / most.contention, rel=1e-3)
    assert least.speed_up(64) < most.speed_up(64)
    assert least.speed_up(least.best()) > max(
        map(least.speed_up, (least.best() / 2, 2 * least.best()))
    )


def test_nothing_lost_is_a_straight_line() -> None:
    for found in (2.0, 2.1):
        for law in model.between(found):
            assert (law.speed_up(64), law.best()) == (64, math.inf)


def test_a_law_of_one_cpu_is_one() -> None:
    assert Law(0.3, 0.01).speed_up(1) == 1


@pytest.mark.parametrize(
    ("form", "slope"), [("constant", 0.0), ("log2 n", 0.6), ("n", 0.05), ("n · log2 n", 0.01)]
)
def test_growth_finds_the_form_through_noise(form: str, slope: float) -> None:
    drawn = random.Random(form)
    points = [
        (n, (5 + slope * model.FORMS[form](n)) * drawn.uniform(0.99, 1.01))
        for n in (1, 4, 16, 64, 256, 1024)
    ]
    found = model.growth(points)
    assert found.form == form
    assert found.base == pytest.approx(5, rel=0.05)
    assert found.slope == pytest.approx(slope, rel=0.1)
    assert found.at(4096) == pytest.approx(5 + slope * model.FORMS[form](4096), rel=0.1)


def test_growth_does_not_fall_and_needs_three_points() -> None:
    assert model.growth([(1, 9.0), (10, 5.0), (100, 2.0)]).form == "constant"
    assert model.growth([(1, 1.0), (100, 9.0)]).form == "constant"
    assert model.growth([(1, 1e-9), (10, 10.0), (100, 100.0)], ("n",)).base == pytest.approx(
        0, abs=1e-6
    )


def test_a_law_is_told_as_a_formula() -> None:
    assert Growth("n", 1.5, 0.25, 0.0).text("µs", 1) == "1.5 µs + 0.25 µs · n"
    assert Growth("constant", 1.5, 0.0, 0.0).text("µs", 1) == "1.5 µs"


def test_laws_cross_where_one_is_so_much_dearer() -> None:
    flat, steep = Growth("constant", 10, 0, 0), Growth("n", 10, 0.01, 0)
    assert model.crossing(flat, steep, 0.03) == pytest.approx(30, rel=0.01)
    assert model.crossing(flat, flat, 0.03) == math.inf


def test_the_fullest_lane_is_that_of_a_simulation() -> None:
    drawn = random.Random(1)
    for connections_, lanes in ((8, 4), (16, 4), (64, 8)):
        peaks = []
        for _ in range(1500):
            row = [0] * lanes
            for _ in range(connections_):
                row[drawn.randrange(lanes)] += 1
            peaks.append(max(row) * lanes / connections_)
        assert model.hottest(connections_, lanes) == pytest.approx(
            sum(peaks) / len(peaks), rel=0.03
        )
    assert model.hottest(10, 1) == 1


def test_a_fleet_costs_by_pods_and_gateways() -> None:
    one, twice, wider = Fleet(100, 1), Fleet(200, 1), Fleet(100, 3)
    assert twice.checks_per_second() == 2 * one.checks_per_second() == 200
    assert wider.update_bytes(180) == 3 * one.update_bytes(180)
    assert twice.rollout_bytes(180) == 4 * one.rollout_bytes(180)
    assert one.check_cores(50) == pytest.approx(0.005)
    assert Fleet(10, 2, workers=4).connections() == 80


def test_a_figure_has_all_rounds_and_what_lies_beyond() -> None:
    series = Series("cost", "Cost", "µs", "pods")
    for n in (1, 10, 100):
        for value in (n, 3 * n):
            series.add("some", n, value)
    figure = series.figure(series.laws(), (1000,))
    assert figure["series"]["some"] == [[1, [1, 3]], [10, [10, 30]], [100, [100, 300]]]
    assert figure["model"]["some"]["points"][-1] == [1000, pytest.approx(2000)]
    json.dumps(figure)


# The parts.


@pytest.fixture(scope="module")
def tools() -> dict[str, Path]:
    return resolve.ensure(run.TOOLS)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The floor, and nginx for what the floor has no threads for."""
    folder = builds.build(builds.BENCH, ["load-generator", "floor"], "dev")
    programs = {name: CONTENDERS[name].build("dev") for name in ("floor", "nginx")}
    return Bench(
        programs, folder / "load-generator", (0, 1), "dev", tmp_path_factory.mktemp("bench")
    )


def figures(part: dict) -> dict[str, dict]:
    """By key, after a look at what every part has."""
    assert part["about"]
    assert part["wrong"] == 0
    json.dumps(part)
    found = {figure["key"]: figure for figure in part["figures"]}
    for figure in found.values():
        for points in figure["series"].values():
            assert all(value >= 0 for _, values in points for value in values)
    return found


def sizes_of(figure: dict, name: str) -> list[float]:
    return [x for x, _ in figure["series"][name]]


def test_cores(bench: Bench) -> None:
    found = figures(cores.measure(bench, replace(TINY, contenders=("floor", "nginx"))))
    assert sizes_of(found["cpu_us"], "nginx") == [1, 2]
    # It has one thread.
    assert "floor" not in found["cpu_us"]["series"]


def test_connections(bench: Bench) -> None:
    found = figures(connections.measure(bench, TINY))
    assert sizes_of(found["cpu_us"], "floor") == sizes_of(found["memory_kib"], "floor") == [1, 8]


def test_routes(bench: Bench, tools: dict[str, Path]) -> None:
    # The programs of peers/routes are not built here: they are left out, and the others measured.
    programs = Programs(bench.generator.parent / "none", tools["nginx"])
    found = figures(routes.measure(bench, TINY, programs))
    assert list(found["cpu_us"]["series"]) == ["nginx"]
    assert sizes_of(found["cpu_us"], "nginx") == [10, 200]


def test_pods(bench: Bench, tools: dict[str, Path]) -> None:
    found = figures(pods.measure(bench, TINY, tools))
    for name in fleet.POLICIES:
        assert sizes_of(found["cpu_us"], name) == [1, 3]
        assert sizes_of(found["grown_ms"], name) == [3]
    ((size, updates),) = found["update_ms"]["series"][fleet.FULL_SCAN]
    assert (size, len(updates)) == (3, 2)
    checks = dict(found["checks"]["series"]["all gateways"])
    # Each gateway checks each of 3 pods once a second.
    assert checks[2] > checks[1] > [0]


def test_the_time_is_bounded() -> None:
    every = list(CONTENDERS.values())
    assert run.seconds(Plan(()), every) <= 300
    assert run.seconds(Plan((), quick=True), every) <= 40
