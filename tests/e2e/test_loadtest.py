"""Load tests in the cluster: several runners, their series in Prometheus, and failed runs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from stack import REPOSITORY, eventually
from support.kubernetes import PAUSE, ROLL_OUT
from support.monitoring import PORTS, Api
from support.releases import Release

BOARD = REPOSITORY / "dashboards" / "json" / "corelane-load-test.json"
RELEASE, JOB = "loadtest", "loadtest-1"
PLACELESS, STRICT = "placeless", "strict"


@pytest.fixture(scope="module")
def platform_with_prometheus(
    deployed: Release, monitoring_images: tuple[str, ...]
) -> Iterator[Release]:
    """The platform plus a Prometheus with remote write."""
    deployed.serve(
        "monitoring.enabled=true",
        "monitoring.prometheus.remoteWriteReceiver=true",
        "monitoring.scrape.interval=2s",
        "monitoring.scrape.timeout=2s",
        "monitoring.alertmanager.enabled=false",
        strings=monitoring_images,
    )
    yield deployed
    # The next test or the final cleanup upgrades again.


@dataclass(frozen=True)
class Started:
    """A running `python3 loadtests cluster`."""

    process: subprocess.Popen[str]
    out: Path

    def end(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=ROLL_OUT)
        return self.process.returncode, said

    @property
    def record(self) -> dict:
        return json.loads((self.out / "cluster-smoke-latest" / "run.json").read_text())


@pytest.fixture
def start(platform_with_prometheus: Release, tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Starts smoke; its release is removed after the test."""
    begun: list[Started] = []

    def run(*arguments: str) -> Started:
        # Runs are concurrent, so each has its own folder.
        out = tmp_path / str(len(begun))
        argv = [sys.executable, "loadtests", "cluster", "smoke", "--out", str(out), *arguments]
        process = subprocess.Popen(
            argv,
            cwd=REPOSITORY,
            env={**os.environ, "NAMESPACE": platform_with_prometheus.cluster.namespace},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        begun.append(Started(process, out))
        return begun[-1]

    yield run
    for each in begun:
        each.process.terminate()
        each.process.wait()
        each.process.stdout.close()
    releases = (RELEASE, PLACELESS, STRICT)
    platform_with_prometheus.helm("uninstall", *releases, "--ignore-not-found", "--wait")


def k6_queries() -> list[str]:
    """k6 queries of the *Load test* dashboard."""

    def expressions(panels: list[dict]) -> Iterator[str]:
        for panel in panels:
            yield from expressions(panel.get("panels", []))
            yield from (target["expr"] for target in panel.get("targets", []))

    found = expressions(json.loads(BOARD.read_text())["panels"])
    return [each for each in found if "k6_" in each and "$testid" in each]


def test_the_runners_share_a_run_and_their_series_add_up(
    start: Callable[..., Started], platform_with_prometheus: Release
) -> None:
    replicas = {pod.name for pod in platform_with_prometheus.cluster.ready_pods("server")}
    started = start(
        *("--runners", "2", "--rate", "60", "--duration", "8s", "--set", "remoteWrite.interval=1s")
    )
    status, said = started.end()
    assert status == 0, said
    record = started.record
    (part,) = record["parts"]
    # Late requests and a few at the very end are also counted.
    assert 480 <= part["requests"] + part["dropped"] <= 490
    assert part["failed"] == 0
    assert set(record["target"]["replicas"]) == replicas
    assert record["settings"]["runners"] == 2
    # The server-side counts come from the same Prometheus.
    assert record["server"]["requests_per_second"]
    of_run = f'testid="{record["settings"]["testid"]}"'
    pod = f"{platform_with_prometheus.name}-monitoring-prometheus-0"
    with platform_with_prometheus.cluster.forwarded(pod, PORTS["prometheus"]) as url:
        prometheus = Api(url)
        counted = prometheus.query(
            f"sum by (runner) (last_over_time(k6_http_reqs_total{{{of_run}}}[10m]))"
        )
        by_runner = {each["metric"]["runner"]: int(each["value"][1]) for each in counted}
        assert by_runner.keys() == {"0", "1"}
        # One series per runner.
        assert sum(by_runner.values()) == part["requests"]
        # The queries are evaluated in the last second, because the series end soon after.
        seen = f"max(max_over_time(timestamp(k6_vus{{{of_run}}})[10m:1s]))"
        moment = float(prometheus.query(seen)[0]["value"][1])
        asked = k6_queries()
        assert asked
        for query in asked:
            query = query.replace("$testid", record["settings"]["testid"])
            query = query.replace("$__rate_interval_ms", "8000").replace("$__rate_interval", "8s")
            path = f"/api/v1/query?query={quote(query)}&time={moment}"
            assert prometheus.data(path)["result"], query


def test_a_run_fails_with_its_runners(
    start: Callable[..., Started], platform_with_prometheus: Release
) -> None:
    """Tests a lost runner, wrong responses and an unschedulable runner. These runs are concurrent,
    because they mostly wait.
    """
    cluster = platform_with_prometheus.cluster
    of_job = f"batch.kubernetes.io/job-name={JOB}"
    started = start("--runners", "2", "--rate", "40", "--duration", "2m", "--keep")

    def begun() -> bool:
        found = cluster.kubectl("get", "job", f"{JOB}-start", "--output", "json", check=False)
        return found.returncode == 0 and bool(json.loads(found.stdout)["status"].get("succeeded"))

    eventually(begun, "the start of all runners", patience=ROLL_OUT, pause=PAUSE)
    pods = cluster.items("pods", "--selector", of_job)
    uids = {pod["metadata"]["uid"] for pod in pods}
    # The other runs start later, so that only one run builds the image.
    placeless = start("--release", PLACELESS, "--set", "cpu=64", "--set", "start.deadline=3s")
    strict = start("--release", STRICT, "--rate", "20", "--set", "target.replicas={nobody}")
    cluster.kubectl("delete", "pod", pods[1]["metadata"]["name"])
    status, said = started.end()
    assert status == 1, said
    assert "PodFailurePolicy" in said
    record = started.record
    assert not record["passed"]
    # Results of the runners up to that point are kept.
    assert record["parts"][0]["requests"] > 0
    assert {pod["metadata"]["uid"] for pod in cluster.items("pods", "--selector", of_job)} <= uids
    assert cluster.get("job", JOB)["status"].get("active", 0) == 0
    status, said = placeless.end()
    assert status == 1
    assert "no runner has sent a request" in said
    assert "not started: after 3 s not ready" in said
    assert "Insufficient cpu" in said
    # k6 reports failed thresholds in its own status.
    status, said = strict.end()
    assert status == 99, said
    assert not strict.record["passed"]
    assert strict.record["parts"][0]["checks"]["failed"] > 0
