"""`up`, `status` and `logs` with real processes."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from local import processes
from support import REPOSITORY, becomes, eventually
from support.client import ask
from support.platforms import Platform


def test_every_replica_answers_through_the_gateway(platform: Platform) -> None:
    expected = {replica.name for replica in platform.replicas}

    def answers() -> set[str | None]:
        return {ask(platform.gateway, "/hello").replica for _ in range(20)}

    # A replica whose health check was late gets nothing until the next one.
    eventually(lambda: answers() == expected, f"replies of {expected} alone")


def test_each_replica_may_run_on_its_cpu_only(platform: Platform) -> None:
    for replica in platform.replicas:
        assert processes.cpus(platform.pid(replica.name)) == str(replica.cpu)


def test_second_up_says_it_is_up_and_changes_nothing(platform: Platform) -> None:
    before = sorted(platform.pids())
    result = platform.command("up")
    assert result.returncode == 0
    assert "is already up" in result.stdout
    assert platform.gateway in result.stdout
    assert sorted(platform.pids()) == before


def test_every_address_that_up_prints_answers(platform: Platform) -> None:
    addresses = set(re.findall(r"http://[^\s;)]+", platform.command("up").stdout))
    assert len(addresses) >= 4 + 2 * len(platform.replicas)
    answers = {url: ask(url, urlsplit(url).path or "/").status for url in addresses}
    assert set(answers.values()) == {200}, answers


@pytest.mark.parametrize("command", ["status", "logs"])
def test_a_reader_that_leaves_early_is_no_error_to_explain(
    platform: Platform, command: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = platform.begin(command, stdout=writer)
    os.close(writer)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (128 + signal.SIGPIPE, "")


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
    # Pid 0 would be every process of this group.
    assert before
    os.kill(before, signal.SIGKILL)
    eventually(lambda: platform.pid("server-1") not in (0, before), "a new process")
    eventually(lambda: ask(platform.gateway, "/hello").replica == "server-1", "its replies")


def test_prometheus_scrapes_every_part(platform: Platform) -> None:
    def targets() -> dict[tuple[str, ...], str]:
        body = ask(platform.prometheus, "/api/v1/targets").body
        return {
            tuple(target["labels"][name] for name in ("job", "namespace", "pod")): target["health"]
            for target in json.loads(body)["data"]["activeTargets"]
        }

    parts = {"server-0": "server", "server-1": "server", "gateway": "gateway"}
    parts["prometheus"] = "prometheus"
    becomes(targets, {(job, platform.run.name, pod): "up" for pod, job in parts.items()})


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


def test_prometheus_answers_a_quantile_with_a_number(platform: Platform) -> None:
    def quantile() -> float:
        ask(platform.gateway, "/hello")
        query = "route:corelane_request_duration_seconds:p99_rate5m%7Broute=%22/hello%22%7D"
        body = json.loads(ask(platform.prometheus, f"/api/v1/query?query={query}").body)
        result = body["data"]["result"]
        return float(result[0]["value"][1]) if result else math.nan

    eventually(lambda: not math.isnan(quantile()), "a quantile")
