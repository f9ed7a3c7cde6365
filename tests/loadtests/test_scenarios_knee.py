"""The rule by which `breakpoint` climbs, on servers whose capacity is known."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest

from support import REPOSITORY
from tools import resolve

pytestmark = pytest.mark.nightly

DATA = Path(__file__).resolve().parent / "data"
CAPACITIES = (37, 100, 170, 900, 1234, 5000, 17_500)
SETTINGS = {"start": 10, "most": 20_000, "steps": 40, "limitMs": 250}


def case(name: str, server: dict, **settings: int) -> tuple[str, dict]:
    return name, {"server": server, "settings": {**SETTINGS, **settings}}


CASES = dict(
    [
        *(case(f"capacity {each}", {"capacity": each}) for each in CAPACITIES),
        case("one bad step", {"capacity": 900, "badSteps": [3]}),
        case("two bad steps", {"capacity": 900, "badSteps": [3, 4]}),
        case("bad from the start", {"capacity": 5}),
        case("failing", {"capacity": 900, "failed": 0.02}),
        case("a few failures", {"capacity": 900, "failed": 0.005}),
        case("late generator", {"capacity": 900, "lateMs": 200}),
        case("highest rate", {"capacity": 900}, most=400),
        case("few steps", {"capacity": 900}, steps=4),
    ]
)


@pytest.fixture(scope="module")
def climbs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """What each case came to; the rule runs where it always does, in k6."""
    folder = tmp_path_factory.mktemp("knee")
    shutil.copytree(REPOSITORY / "loadtests/lib", folder / "lib")
    shutil.copy(DATA / "knee.js", folder)
    argv = [resolve.ensure(["k6"])["k6"], "run", "--quiet", "--address", "", "--no-usage-report"]
    result = subprocess.run(
        [*argv, "--env", f"CASES={json.dumps(list(CASES.values()))}", "knee.js"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    line = next(line for line in result.stdout.splitlines() if line.startswith("{"))
    return dict(zip(CASES, json.loads(line)["results"], strict=True))


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_the_knee_is_the_highest_rate_within_the_objective(
    climbs: dict[str, dict], capacity: int
) -> None:
    climb = climbs[f"capacity {capacity}"]
    # Of M/M/1: the rate at which the p99 is the objective.
    true = capacity - 1000 * math.log(100) / SETTINGS["limitMs"]
    assert climb["knee"] <= true < climb["bad"]
    # As close as the climb goes, or as whole numbers allow.
    assert climb["bad"] <= max(1.08 * climb["knee"], climb["knee"] + 1)
    assert len(climb["rates"]) <= SETTINGS["steps"]


def test_one_bad_step_is_tried_once_more(climbs: dict[str, dict]) -> None:
    climb = climbs["one bad step"]
    assert climb["rates"][2] == climb["rates"][3]
    assert climb["knee"] == pytest.approx(climbs["capacity 900"]["knee"], rel=0.08)


def test_two_bad_steps_are_the_end_of_the_climb(climbs: dict[str, dict]) -> None:
    climb = climbs["two bad steps"]
    assert climb["knee"] < climb["bad"] == climb["rates"][2]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("capacity 900", "dropped"),
        ("two bad steps", "tail"),
        ("failing", "failures"),
        ("late generator", "generator"),
        ("highest rate", "highest-rate"),
        ("few steps", "steps"),
    ],
)
def test_it_says_why_it_ended(climbs: dict[str, dict], name: str, why: str) -> None:
    assert climbs[name]["why"] == why


@pytest.mark.parametrize("name", ["bad from the start", "failing", "late generator"])
def test_no_good_step_is_no_knee(climbs: dict[str, dict], name: str) -> None:
    assert climbs[name]["knee"] == 0
    assert len(climbs[name]["rates"]) == 2


def test_a_few_failures_are_allowed(climbs: dict[str, dict]) -> None:
    assert climbs["a few failures"]["knee"] == climbs["capacity 900"]["knee"]


def test_it_ends_at_the_highest_rate(climbs: dict[str, dict]) -> None:
    climb = climbs["highest rate"]
    assert (climb["knee"], climb["bad"]) == (400, None)
