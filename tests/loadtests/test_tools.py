"""The five systems' tests with ab and vegeta, very small, on a real platform; how ab's output is read."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from loadtests import tools
from loadtests.bench import ab
from loadtests.record import ALL, Run, from_json, read, to_json
from loadtests.target import Target
from loadtests.usage import UsageError
from stack import REPOSITORY
from stack.http_server import serving
from stack.replica import Server
from support.platforms import Platform
from support.scenarios import ROUTES, THRESHOLDS_FAILED, TOKEN, failing_server
from tools.errors import ToolError

pytestmark = pytest.mark.nightly

TESTS = [(scenario, tool) for scenario, (tool,) in tools.TOOLS.items()]
SMALL = {"vus": 1, "duration": "1s"}
PARTS = {
    "s0-direct-vs-gateway": ["direct", "gateway"],
    "s1-c10k-static": [ALL],
    "s4-keepalive-div": ["close", "keep-alive"],
}


@pytest.fixture(scope="module")
def target(platform: Platform) -> Target:
    return Target(
        platform.gateway,
        tuple(replica.name for replica in platform.replicas),
        direct=platform.replicas[0].url,
    )


@pytest.fixture(scope="module")
def sound(
    target: Target, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Run]]]:
    """Every test with its tool, all at once."""
    with ThreadPoolExecutor(len(TESTS)) as pool:
        yield {
            scenario: pool.submit(
                tools.run, tool, scenario, target, SMALL, tmp_path_factory.mktemp(scenario)
            )
            for scenario, tool in TESTS
        }


@pytest.mark.parametrize(("scenario", "tool"), TESTS)
def test_a_sound_platform_passes(sound: dict[str, Future[Run]], scenario: str, tool: str) -> None:
    run = sound[scenario].result()
    assert (run.passed, run.exit_code, run.failed_thresholds) == (True, 0, [])
    assert (run.name, run.tool) == (scenario, tool)
    assert run.tool_version[0].isdigit()
    assert [part.name for part in run.parts] == PARTS[scenario]
    for part in run.parts:
        assert part.requests > 0
        assert part.failed == 0
        assert part.seconds > 0
        latency = part.routes[ALL].latency_ms
        assert latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
        curve = part.percentiles[ALL]
        assert curve == sorted(curve)
        assert curve[-1][0] == 100
    assert from_json(to_json(run)) == run


@pytest.fixture(scope="module")
def failing(
    starter: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """A server that answers two requests of five with an error."""
    folder = tmp_path_factory.mktemp("failing")
    server = failing_server(starter, folder, ROUTES[:-1], 0.4, error={"status": 500})
    yield Target(server.url, ("test",), direct=server.url, token=TOKEN)


@pytest.mark.parametrize(
    ("scenario", "tool"),
    [("s1-c10k-static", "ab"), ("s4-keepalive-div", "vegeta")],
)
def test_a_planted_fault_fails_it(
    failing: Target, tmp_path: Path, scenario: str, tool: str
) -> None:
    run = tools.run(tool, scenario, failing, {"vus": 40, "duration": "1s"}, tmp_path)
    assert (run.passed, run.exit_code) == (False, THRESHOLDS_FAILED)
    assert len(run.failed_thresholds) == len(run.parts)
    for part in run.parts:
        assert 0 < part.failed < part.requests


def test_a_wrong_body_fails_vegeta(tmp_path: Path) -> None:
    """Any server that answers 200 with something else than half of 4."""
    with serving(lambda request: request.reply(body=b"3")) as url:
        run = tools.run("vegeta", "s4-keepalive-div", Target(url, ()), SMALL, tmp_path)
    assert not run.passed
    assert all(part.failed == part.requests > 0 for part in run.parts)
    assert run.parts[0].checks.failed == run.parts[0].requests


def test_what_is_missing_is_named(target: Target, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="DIRECT_URL is not set"):
        tools.run("ab", "s0-direct-vs-gateway", Target("http://127.0.0.1:1", ()), SMALL, tmp_path)


@pytest.mark.parametrize(
    ("tool", "scenario", "settings", "said"),
    [
        ("ab", "smoke", {}, "smoke has no test with ab"),
        ("vegeta", "s4-keepalive-div", {"rate": 5}, "--rate: vegeta asks again"),
        ("vegeta", "s4-keepalive-div", {"duration": "soon"}, "--duration soon: give at least 1s"),
    ],
)
def test_bad_usage_is_named(
    target: Target, tmp_path: Path, tool: str, scenario: str, settings: dict, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        tools.run(tool, scenario, target, settings, tmp_path)


def test_the_command_runs_them(platform: Platform, tmp_path: Path) -> None:
    argv = [sys.executable, "loadtests", "s4-keepalive-div", "--tool", "vegeta", "--vus", "2"]
    result = subprocess.run(
        [*argv, "--duration", "1s", "--out", str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "INSTANCE": platform.instance, "GATEWAY_URL": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    run = read(tmp_path / "s4-keepalive-div-latest")
    assert (run.tool, run.target.url, run.settings["vus"]) == ("vegeta", platform.gateway, 2)
    assert (tmp_path / "s4-keepalive-div-latest" / "report.html").exists()


DATA = Path(__file__).resolve().parent / "data"


def parse(name: str) -> ab.Result:
    return ab.parse((DATA / f"{name}.txt").read_text(), (DATA / "keep-alive.csv").read_text())


def test_every_figure_is_read() -> None:
    assert parse("keep-alive") == ab.Result(
        seconds=0.861,
        requests_per_second=23222.95,
        complete=20000,
        failed=0,
        write_errors=0,
        non_2xx=0,
        kept_alive=20000,
        percentiles={
            "50": 4.130,
            "66": 4.574,
            "75": 4.990,
            "80": 5.275,
            "90": 6.379,
            "95": 7.520,
            "98": 8.902,
            "99": 10.299,
            "100": 19.914,
        },
    )


def test_replies_other_than_2xx_are_wrong() -> None:
    result = parse("not-found")
    assert result.failed == 0
    assert result.non_2xx == 200
    assert result.kept_alive == 0
    assert result.wrong == 200


def test_output_without_a_figure_is_an_error() -> None:
    with pytest.raises(ToolError, match="Time taken"):
        ab.parse("This is ApacheBench, Version 2.3", "")
