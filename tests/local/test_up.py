"""`up`, `status` and `logs` with real processes."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable

import pytest

from local import processes
from support import REPOSITORY, eventually
from support.platforms import Platform


def get(url: str) -> tuple[bytes, str]:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return reply.read(), reply.headers["corelane-replica"]


def test_every_replica_answers_through_the_gateway(platform: Platform) -> None:
    answers = {get(f"{platform.gateway}/hello")[1] for _ in range(20)}
    assert answers == {replica.name for replica in platform.replicas}


def test_each_replica_may_run_on_its_cpu_only(platform: Platform) -> None:
    for replica in platform.replicas:
        assert processes.cpus(platform.pid(replica.name)) == str(replica.cpu)


def test_second_up_says_it_is_up_and_changes_nothing(platform: Platform) -> None:
    before = sorted(platform.pids())
    result = platform.command("up")
    assert result.returncode == 0
    assert "is up already" in result.stdout
    assert platform.gateway in result.stdout
    assert sorted(platform.pids()) == before


def test_status_shows_every_process(platform: Platform) -> None:
    result = platform.command("status")
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines()[1:]}
    assert set(rows) == {"gateway", "prometheus", "server-0", "server-1"}
    for name, row in rows.items():
        assert row[1:3] == ["running", str(platform.pid(name))]
    assert result.returncode == 0


def test_logs_show_every_process_and_know_no_other(platform: Platform) -> None:
    result = platform.command("logs")
    assert result.returncode == 0
    for name in ("gateway", "prometheus", "server-0", "server-1"):
        assert f"==> {name}" in result.stdout
    unknown = platform.command("logs", "server-9")
    assert unknown.returncode == 1
    assert "'server-9'" in unknown.stderr
    assert "server-1" in unknown.stderr


def test_a_killed_replica_comes_back(platform: Platform) -> None:
    before = platform.pid("server-1")
    os.kill(before, signal.SIGKILL)
    eventually(lambda: platform.pid("server-1") not in (0, before))
    eventually(lambda: get(f"{platform.gateway}/hello")[1] == "server-1")


def test_prometheus_scrapes_every_part(platform: Platform) -> None:
    def targets() -> dict[tuple[str, str], str]:
        body, _ = get(f"{platform.prometheus}/api/v1/targets")
        return {
            (target["labels"]["job"], target["labels"].get("replica", "")): target["health"]
            for target in json.loads(body)["data"]["activeTargets"]
        }

    expected = {("server", "server-0"), ("server", "server-1"), ("gateway", "")}
    eventually(lambda: set(targets().values()) == {"up"})
    assert set(targets()) == expected


def test_promtool_accepts_the_prometheus_configuration(platform: Platform) -> None:
    argv = [sys.executable, "hack/tools", "run", "promtool", "check", "config"]
    argv.append(str(platform.run / "prometheus.yml"))
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [("REPLICAS", "0"), ("REPLICAS", "two"), ("GATEWAY_PORT", "70000"), ("INSTANCE", "../x")],
)
def test_a_bad_value_is_named(
    new_platform: Callable[[int], Platform], variable: str, value: str
) -> None:
    result = new_platform(1).command("up", **{variable: value})
    assert result.returncode == 1
    assert f"{variable}={value}" in result.stderr
