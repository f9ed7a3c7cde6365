"""charts/loadtest without a cluster: shares, start and Jobs, with the real k6 and API server."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from loadtests import k6
from loadtests.cluster.runners import find_summary
from stack import PATIENCE, REPOSITORY, eventually
from stack.apiserver import Api
from stack.http import ask
from stack.ports import free_ports
from stack.rendering import CHARTS, default_values, documents
from stack.replica import Server
from tools.resolve import tool

THRESHOLDS_FAILED, STOPPED, ABORTED = 99, 103, 108
"""k6 exit codes."""

WAITING = 4
"""k6 status while paused before the start; see start.js."""


def named(kind: str, name: str, *settings: str) -> dict:
    (found,) = (
        each
        for each in documents("loadtest", *settings)
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def job(*settings: str) -> dict:
    return named("Job", "corelane-loadtest-1", *settings)


def files(name: str, *settings: str) -> dict[str, str]:
    return named("ConfigMap", f"corelane-loadtest-1-{name}", *settings)["data"]


@dataclass
class Runner:
    process: subprocess.Popen
    url: str
    log: Path

    def waits(self) -> bool:
        try:
            reply = ask(self.url, urlsplit(self.url).path)
        except OSError:
            return False
        return json.loads(reply.body)["data"]["attributes"]["status"] == WAITING


@contextmanager
def runners(folder: Path, count: int, target: str, *settings: str) -> Iterator[list[Runner]]:
    """Starts k6 as the chart does, apart from paths, ports and host names."""
    settings = (f"runners={count}", f"target.url={target}", "testid=test", *settings)
    (container,) = job(*settings)["spec"]["template"]["spec"]["containers"]
    shares = folder / "shares"
    shares.mkdir()
    for name, content in files("shares", *settings).items():
        (shares / name).write_text(content)
    first = free_ports(count)
    with ExitStack() as stack:
        started = []
        for index in range(count):
            values = {each["name"]: each.get("value", "") for each in container["env"]}
            values["RUNNER"] = str(index)
            text = json.dumps(container["args"])
            text = re.sub(r"\$\((\w+)\)", lambda found, known=values: known[found[1]], text)
            text = text.replace("/shares/", f"{shares}/").replace(
                ":6565", f"127.0.0.1:{first + index}"
            )
            arguments = json.loads(text.replace("/loadtests/", f"{REPOSITORY}/loadtests/"))
            log = folder / f"runner-{index}.log"
            process = stack.enter_context(
                subprocess.Popen(
                    [tool("k6"), *arguments],
                    env={**os.environ, **values},
                    stdout=stack.enter_context(log.open("wb")),
                )
            )
            stack.callback(process.kill)
            started.append(Runner(process, f"http://127.0.0.1:{first + index}/v1/status", log))
        yield started


def start(folder: Path, urls: list[str], seconds: int) -> subprocess.CompletedProcess[str]:
    script = folder / "start.js"
    script.write_text(files("start")["start.js"])
    argv = [tool("k6"), "run", "--address=", "--quiet", "--no-usage-report", "--log-output=stdout"]
    environment = {"RUNNER_URLS": ",".join(urls), "START_SECONDS": str(seconds)}
    return subprocess.run(
        [*argv, script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


# Counts the requests k6 starts within two seconds, which needs an idle machine.
@pytest.mark.nightly
def test_runners_share_the_load_and_begin_together(server: Server, tmp_path: Path) -> None:
    settings = ("settings.RATE=90", "settings.DURATION=2s", "target.replicas={test}")
    with runners(tmp_path, 3, server.url, *settings) as started:
        begun = start(tmp_path, [each.url for each in started], 30)
        assert begun.returncode == 0, begun.stdout
        assert "started 3 runners within" in begun.stdout
        ends = [each.process.wait(PATIENCE) for each in started]
    summaries = [find_summary(each.log.read_text()) for each in started]
    assert all(summaries), [each.log.read_text()[-500:] for each in started]
    # Each runner starts a third of the requests. This includes late requests and a few at the very
    # end.
    due = [
        k6.value(summary["metrics"], "http_reqs", "count")
        + k6.value(summary["metrics"], "dropped_iterations", "count")
        for summary in summaries
    ]
    assert all(60 <= count <= 63 for count in due), due
    assert ends == [0, 0, 0], [each.log.read_text()[-500:] for each in started]


def test_without_one_of_them_nobody_begins(server: Server, tmp_path: Path) -> None:
    before = server.metrics()
    with runners(tmp_path, 2, server.url) as started:
        # All runners are waiting, so a late runner cannot be the reason for the stop.
        for each in started:
            eventually(each.waits, f"{each.url} waits")
        missing = f"http://127.0.0.1:{free_ports(1)}/v1/status"
        gave_up = start(tmp_path, [*(each.url for each in started), missing], 1)
        assert gave_up.returncode == ABORTED
        assert f"not started: after 1 s not ready: {missing} at" in gave_up.stdout
        assert [each.process.wait(PATIENCE) for each in started] == [STOPPED, STOPPED]
    requests = "corelane_requests_total"
    after = server.metrics()
    asked = [
        {name: value for name, value in found.items() if name.startswith(requests)}
        for found in (before, after)
    ]
    assert asked[0] == asked[1]


def test_a_failed_threshold_is_told_by_the_exit_status_and_a_whole_summary(
    server: Server, tmp_path: Path
) -> None:
    settings = ("settings.RATE=50", "settings.DURATION=1s", "target.replicas={nobody}")
    with runners(tmp_path, 1, server.url, *settings) as (only,):
        assert start(tmp_path, [only.url], 30).returncode == 0
        assert only.process.wait(PATIENCE) == THRESHOLDS_FAILED
    summary = find_summary(only.log.read_text())
    threshold = summary["metrics"]["replica_replies{replica:nobody}"]["thresholds"]["count>0"]
    assert threshold["ok"] is False


def test_the_image_is_of_the_version_that_the_scenarios_are_tested_with() -> None:
    said = subprocess.run([tool("k6"), "version"], capture_output=True, text=True, check=True)
    image = default_values("loadtest")["image"]
    assert f"k6 v{image['tag']} " in said.stdout


@pytest.mark.fast
@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_shares_cover_the_whole_load_and_nothing_twice(count: int) -> None:
    shares = [json.loads(text) for text in files("shares", f"runners={count}").values()]
    assert len(shares) == count
    (sequence,) = {each["executionSegmentSequence"] for each in shares}
    bounds = sequence.split(",")
    segments = {tuple(each["executionSegment"].split(":")) for each in shares}
    assert segments == set(pairwise(bounds))
    assert (bounds[0], bounds[-1]) == (f"0/{count}", f"{count}/{count}")


@pytest.mark.nightly
def test_every_upgrade_is_a_run_of_its_own(api: Api) -> None:
    """Jobs are immutable: reusing a name would make the API server reject the second run."""
    with api.namespace() as namespace:
        here = ("--namespace", namespace)

        def names() -> set[str]:
            return {each["metadata"]["name"] for each in api.get("jobs", *here)["items"]}

        for revision, runners in enumerate(("2", "3"), start=1):
            arguments = ("upgrade", "--install", "smoke", CHARTS / "loadtest", *here)
            result = api.helm(*arguments, "--set", f"runners={runners}")
            assert result.returncode == 0, result.stderr
            name = f"smoke-loadtest-{revision}"
            assert {name, f"{name}-start"} <= names()
        # There is no garbage collector; deleted objects are only marked.
        first = api.get("jobs", "smoke-loadtest-2", *here)
        assert first["spec"]["completions"] == 3


@pytest.mark.fast
def test_runners_are_let_in_where_they_push_to(render_policy: Callable[..., list[dict]]) -> None:
    wanted = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "corelane-loadtest"}}}
    assert wanted in render_policy("prometheus.remoteWriteReceiver=true")
    assert wanted not in render_policy("prometheus.remoteWriteReceiver=false")


@pytest.fixture
def render_policy() -> Callable[..., list[dict]]:
    def render(*settings: str) -> list[dict]:
        found = documents("monitoring", "mode=standalone", "grafana.enabled=false", *settings)
        (policy,) = (
            each
            for each in found
            if each["kind"] == "NetworkPolicy" and each["metadata"]["name"].endswith("prometheus")
        )
        (rule,) = policy["spec"]["ingress"]
        return rule["from"]

    return render
