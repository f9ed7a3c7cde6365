"""The smoke scenario against healthy and broken platforms."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from local import supervisor
from stack import REPOSITORY
from stack.replica import STATIC, Server
from support.platforms import Platform

THRESHOLDS_FAILED = 99
"""k6 exit code."""


@dataclass(frozen=True)
class Smoke:
    exit_code: int
    output: str
    latest: Path

    @property
    def record(self) -> dict:
        return json.loads(self.latest.read_text())

    @property
    def failed(self) -> list[str]:
        return self.record["failed_thresholds"]


@pytest.fixture
def smoke(tmp_path: Path) -> Callable[..., Smoke]:
    """Returns a function that runs the smoke scenario briefly with these variables."""

    def run(**variables: str) -> Smoke:
        argv = [sys.executable, "loadtests", "smoke", "--rate", "90", "--duration", "1s"]
        result = subprocess.run(
            [*argv, "--out", str(tmp_path / "out")],
            cwd=REPOSITORY,
            env={**os.environ, "GATEWAY_URL": "", "REPLICAS": "", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Smoke(result.returncode, result.stdout, tmp_path / "out/smoke-latest/run.json")

    return run


def stop(platform: Platform, *replicas: str) -> None:
    argv = [sys.executable, "hack/tools", "run", "supervisorctl"]
    argv += ["-s", f"unix://{supervisor.socket_path(platform.run)}", "stop"]
    states = supervisor.states(platform.run)
    argv += [f"{states[replica]['group']}:{replica}" for replica in replicas]
    subprocess.run(argv, cwd=REPOSITORY, check=True, capture_output=True)


def test_a_sound_platform_passes(smoke: Callable[..., Smoke], platform: Platform) -> None:
    run = smoke(INSTANCE=platform.instance)
    assert run.exit_code == 0, run.output
    assert run.record["passed"] is True
    assert run.record["target"]["replicas"] == [replica.name for replica in platform.replicas]
    metrics = run.record["k6"]["metrics"]
    assert metrics["checks"]["values"]["fails"] == 0
    for replica in platform.replicas:
        assert metrics[f"replica_replies{{replica:{replica.name}}}"]["values"]["count"] > 0
    for route in ("root", "div", "static-index", "not-found", "method-not-allowed"):
        assert metrics[f"http_reqs{{name:{route}}}"]["values"]["count"] > 0
    kept = sorted(run.latest.parent.parent.glob("smoke-2*/run.json"))
    assert kept[-1].read_bytes() == run.latest.read_bytes()


def test_a_gateway_is_asked_for_its_replicas(
    smoke: Callable[..., Smoke], platform: Platform
) -> None:
    run = smoke(GATEWAY_URL=platform.gateway, REPLICAS="2")
    assert run.exit_code == 0, run.output
    assert run.record["target"]["replicas"] == [replica.name for replica in platform.replicas]


def test_missing_replicas_fail_it(
    smoke: Callable[..., Smoke], new_platform: Callable[[int], Platform]
) -> None:
    platform = new_platform(2)
    platform.up()
    stop(platform, "server-1")
    without_one = smoke(INSTANCE=platform.instance)
    assert without_one.exit_code == THRESHOLDS_FAILED, without_one.output
    assert without_one.failed == ["replica_replies{replica:server-1}: count>0"]
    stop(platform, "server-0")
    without_any = smoke(INSTANCE=platform.instance)
    assert without_any.exit_code == THRESHOLDS_FAILED, without_any.output
    assert "http_req_failed: rate==0" in without_any.failed
    assert without_any.record["passed"] is False


@pytest.fixture
def server_with_a_longer_page(start: Callable[..., Server], tmp_path: Path) -> Server:
    """index.html has one extra byte."""
    root = shutil.copytree(STATIC, tmp_path / "static")
    with open(root / "index.html", "a") as page:
        page.write("!")
    return start(static=root)


def test_a_wrong_body_fails_it(
    smoke: Callable[..., Smoke], server_with_a_longer_page: Server
) -> None:
    run = smoke(GATEWAY_URL=server_with_a_longer_page.url, REPLICAS="1")
    assert run.exit_code == THRESHOLDS_FAILED, run.output
    assert run.failed == ["checks: rate==1"]
    assert "static-index: body" in run.output


def test_nothing_up_says_what_to_do(smoke: Callable[..., Smoke]) -> None:
    run = smoke(INSTANCE="never-up")
    assert run.exit_code == 1
    assert "nothing is up (instance never-up)" in run.output
    assert "make up" in run.output
    assert "GATEWAY_URL" in run.output
    assert not run.latest.exists()


def test_a_gateway_that_does_not_answer_is_named(smoke: Callable[..., Smoke]) -> None:
    # Nothing listens on port 1 (tcpmux).
    run = smoke(GATEWAY_URL="http://127.0.0.1:1")
    assert run.exit_code == 1
    assert "GATEWAY_URL=http://127.0.0.1:1 does not answer" in run.output


def test_a_bad_number_of_replicas_is_named(smoke: Callable[..., Smoke]) -> None:
    run = smoke(GATEWAY_URL="http://127.0.0.1:1", REPLICAS="0")
    assert run.exit_code == 1
    assert "REPLICAS=0" in run.output
