"""Short runs of all k6 scenarios, which pass on a healthy platform and fail with a fault; also the
climb of `breakpoint`.
"""

import json
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadtests import k6
from stack import REPOSITORY
from stack.http import ask
from stack.replica import Server
from support.platforms import Platform
from support.scenarios import (
    ROUTES,
    SMALL,
    THRESHOLDS_FAILED,
    TOKEN,
    Container,
    Ended,
    failing_server,
)
from tools import resolve

pytestmark = pytest.mark.nightly

KNOWN = {"ROUTE": "hello", "RATE": "8", "DURATION": "1s", "STEPS": "6", "P99_MS": "700"}
"""A climb where each request holds the only lane for 50 ms."""


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    made = Container(tmp_path_factory.mktemp("container"))
    yield made
    made.pool.shutdown()


@pytest.fixture(scope="module")
def faulty(
    starter: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., str]]:
    folder = tmp_path_factory.mktemp("faulty")

    def made(routes: Sequence[str], share: float, **effect: dict) -> str:
        return failing_server(starter, folder, routes, share, **effect).url

    yield made


@dataclass(frozen=True)
class Runs:
    """All runs of this module, which are concurrent because they mostly wait."""

    sound: dict[str, Future[Ended]]
    """Runs through a healthy gateway, of which they only know the URL."""
    failing: dict[str, Future[Ended]]
    """Against a server that fails 40 % of requests."""
    long: Future[Ended]
    silent: Future[Ended]
    """S0 with a replica that does not exist."""
    slow: Future[Ended]
    """A climb with a known capacity of 20 requests/s."""


@pytest.fixture(scope="module")
def runs(container: Container, platform: Platform, faulty: Callable[..., str]) -> Runs:
    failing = faulty(ROUTES, 0.4, error={"status": 503})
    slow = faulty(["/hello"], 1, cpu={"burn": "50ms"})
    names = [*(replica.name for replica in platform.replicas), "server-7"]
    token = (platform.run / "token").read_text().strip()
    return Runs(
        slow=container.begin("breakpoint", BASE_URL=slow, **KNOWN),
        sound=container.begin_all(BASE_URL=platform.gateway, TOKEN=token),
        silent=container.begin(
            "s0-direct-vs-gateway",
            BASE_URL=platform.gateway,
            DIRECT_URL=platform.replicas[0].url,
            REPLICA_NAMES=",".join(names),
            **SMALL["s0-direct-vs-gateway"],
        ),
        failing=container.begin_all(BASE_URL=failing, TOKEN=TOKEN),
        long=container.begin("smoke", BASE_URL=failing, RATE="45", DURATION="1h"),
    )


def test_all_scenarios_are_here() -> None:
    assert sorted(SMALL) == k6.scenarios()


@pytest.mark.parametrize("name", SMALL)
def test_a_sound_platform_passes(runs: Runs, name: str) -> None:
    run = runs.sound[name].result()
    assert run.exit_code == 0, run.said
    assert run.failed == []
    assert run.value("checks", "passes") > 0
    assert run.value("checks", "fails") == 0
    assert run.value("http_reqs", "count") > 0


@pytest.mark.parametrize("name", SMALL)
def test_a_planted_fault_fails_it(runs: Runs, name: str) -> None:
    """Checks and failed requests alone would not fail k6."""
    run = runs.failing[name].result()
    assert run.exit_code == THRESHOLDS_FAILED, run.said
    metrics = {threshold.partition(":")[0].partition("{")[0] for threshold in run.failed}
    assert {"http_req_failed", "checks"} <= metrics


@pytest.mark.parametrize("name", SMALL)
def test_series_are_bounded(runs: Runs, name: str) -> None:
    """Labels are route names instead of URLs. k6 warns if there are 100,000 series or more."""
    assert "unique time series" not in runs.sound[name].result().said
    assert (
        "script_errors" in runs.sound[name].result().data["metrics"]
        or not runs.sound[name].result().failed
    )


def figures(run: Ended) -> dict[str, float]:
    return {
        f"{part}: {name}": figure["value"]
        for part, found in run.data["figures"].items()
        for name, figure in found.items()
    }


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("stress", "recovery: p99_after_over_before"),
        ("spike", "after: p99_after_over_before"),
        ("soak", "last: p99_last_over_first"),
        ("breakpoint", "all: knee_requests_per_second"),
        ("s1-c10k-static", "all: connect_p99_ms"),
        ("s2-cpu-matrix", "c2-ops100000: ms_per_request"),
        ("s3-mixed-projects", "users: all_users_seconds"),
        ("s3-c10k-20000", "all: median_ms"),
        ("s4-keepalive-div", "keep-alive: keep_alive_over_close"),
    ],
)
def test_figures_are_told(runs: Runs, name: str, told: str) -> None:
    assert figures(runs.sound[name].result())[told] > 0


def test_without_a_direct_address_it_says_what_is_missing(runs: Runs) -> None:
    assert "DIRECT_URL is not set" in runs.sound["s0-direct-vs-gateway"].result().data["notes"][0]


def test_users_leave_no_project(runs: Runs, platform: Platform) -> None:
    assert runs.sound["s3-mixed-projects"].result().exit_code == 0
    assert json.loads(ask(platform.gateway, "/projects").body)["projects"] == []


def test_every_request_of_the_crowds_was_sent(runs: Runs) -> None:
    """Two users open 150 connections. S1 sends 1.3 requests per connection, and one that is
    rejected.
    """
    assert runs.sound["s1-c10k-static"].result().value("http_reqs", "count") == 196 + 1
    assert runs.sound["s3-c10k-20000"].result().value("http_reqs", "count") == 150


def test_a_silent_replica_fails_s0(runs: Runs) -> None:
    run = runs.silent.result()
    assert run.exit_code == THRESHOLDS_FAILED, run.said
    assert run.failed == ["replica_replies{replica:server-7}: count>0"]
    assert figures(run)["gateway: p50_gateway_over_direct"] > 0


def test_projects_need_a_token(container: Container, platform: Platform) -> None:
    run = container.run("s3-mixed-projects", BASE_URL=platform.gateway)
    assert run.exit_code not in (0, THRESHOLDS_FAILED)
    assert "TOKEN is not set" in run.said


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("RATE", "many", "RATE=many: give a whole number from 1"),
        ("DURATION", "5 minutes", "DURATION=5 minutes: give at least 1s"),
        ("BASE_URL", "", "BASE_URL is not set"),
    ],
)
def test_a_wrong_setting_is_named(
    container: Container, variable: str, value: str, said: str
) -> None:
    run = container.run("load", **{"BASE_URL": "http://127.0.0.1:1", variable: value})
    assert run.exit_code not in (0, THRESHOLDS_FAILED)
    assert said in run.said


def test_a_clear_failure_ends_a_long_run(runs: Runs) -> None:
    run = runs.long.result()
    assert run.exit_code == THRESHOLDS_FAILED, run.said
    assert "http_req_failed: rate==0" in run.failed


def test_a_refusal_must_say_when_to_come_again(runs: Runs) -> None:
    """The injected 503 lacks `Retry-After`, so even a spike fails."""
    run = runs.failing["spike"].result()
    checks = {check["name"]: check["fails"] for check in run.data["root_group"]["checks"]}
    assert any(checks[name] for name in checks if "says when to come again" in name)
    assert run.value("refusals", "count") > 0


def test_breakpoint_finds_the_knee_of_a_known_server(runs: Runs) -> None:
    run = runs.slow.result()
    assert run.exit_code == 0, run.said
    found = figures(run)
    # At 45/s, one second leaves over a second of queued work.
    assert 8 <= found["all: knee_requests_per_second"] < 45
    assert found["all: first_bad_requests_per_second"] > found["all: knee_requests_per_second"]
    assert "The climb ended because" in run.data["notes"][0]


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
    """Returns the results of each case, for which k6 evaluates the rule."""
    folder = tmp_path_factory.mktemp("knee")
    shutil.copytree(REPOSITORY / "loadtests/lib", folder / "lib")
    shutil.copy(DATA / "knee.js", folder)
    argv = [resolve.tool("k6"), "run", "--quiet", "--address", "", "--no-usage-report"]
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
    # M/M/1: rate at which p99 meets the objective.
    true = capacity - 1000 * math.log(100) / SETTINGS["limitMs"]
    assert climb["knee"] <= true < climb["bad"]
    # The bounds are as close as the step size and whole numbers permit.
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
