"""Reports of real k6 runs, with a real server and Prometheus."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from loadtests import record
from loadtests.record import ALL, Run
from loadtests.report.prometheus import receives
from stack import REPOSITORY, eventually
from stack.http import ask
from stack.ports import free_ports
from stack.replica import Server
from tools import resolve

pytestmark = pytest.mark.nightly

SCRAPE = "500ms"


@pytest.fixture(scope="module")
def prometheus(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Scrapes the server and accepts k6's remote writes."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_ports(1)
    jobs = [{"job_name": "service", "static_configs": [{"targets": [server.admin[7:]]}]}]
    times = {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE}
    (folder / "prometheus.yml").write_text(json.dumps({"global": times, "scrape_configs": jobs}))
    argv = [resolve.tool("prometheus")]
    argv += [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    argv += [f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver"]
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            return ask(url, "/-/ready").status == 200
        except OSError:
            return False

    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(ready)
            eventually(lambda: b'"1"' in ask(url, "/api/v1/query?query=up").body)
            yield url
        finally:
            process.kill()


def command(server: Server, out: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "loadtests", *arguments, "--out", out],
        cwd=REPOSITORY,
        env={**os.environ, "GATEWAY_URL": server.url, "REPLICAS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def folder(server: Server, prometheus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few seconds."""
    out = tmp_path_factory.mktemp("out")
    arguments = ["smoke", "--rate", "200", "--duration", "4s"]
    process = command(server, out, *arguments, PROMETHEUS_URL=prometheus)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return out / "smoke-latest"


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return record.read(folder)


def test_what_was_gathered_is_what_k6_counted(run: Run) -> None:
    (part,) = run.parts
    metrics = run.k6["metrics"]
    assert part.requests == metrics["http_reqs"]["values"]["count"]
    assert part.failed == metrics["http_req_failed"]["values"]["passes"]
    assert part.checks.passed == metrics["checks"]["values"]["passes"]
    assert sum(part.over_time[ALL].requests) == part.requests
    keys = {"min": "min", "mean": "avg", "p50": "med", "p90": "p(90)", "p99": "p(99)", "max": "max"}
    for name, route in part.routes.items():
        tag = "" if name == ALL else f"{{name:{name}}}"
        values = metrics[f"http_req_duration{tag}"]["values"]
        assert route.requests == metrics[f"http_reqs{tag}"]["values"]["count"]
        for key, of_k6 in keys.items():
            assert route.latency_ms[key] == pytest.approx(values[of_k6], abs=2e-6), (name, key)


def test_the_servers_side_is_in_it(run: Run) -> None:
    server = run.server
    assert set(server.phases) >= {"queue", "handler", "write"}
    assert {"queue", "handler", "write"} <= set(server.whole_run)
    assert server.whole_run["queue"]["finest_ms"] > 0
    end = run.seconds + 1
    for series in (server.lanes_busy, server.requests_per_second, server.phases["queue"]["p99_ms"]):
        assert series
        assert all(0 <= t <= end and value >= 0 for t, value in series)
    assert max(value for _, value in server.requests_per_second) > 0
    # No gateway in this run.
    assert server.gateway_p99_ms == []


def test_k6_writes_its_series_to_prometheus(run: Run, folder: Path, prometheus: str) -> None:
    assert receives(prometheus)
    query = quote(f'count(k6_http_reqs_total{{testid="{folder.resolve().name}"}}) by (name)')
    found = json.loads(ask(prometheus, f"/api/v1/query?query={query}").body)["data"]["result"]
    names = {series["metric"]["name"] for series in found}
    assert names == set(run.parts[0].routes) - {ALL}


def test_the_folder_has_everything(run: Run, folder: Path) -> None:
    assert folder.resolve().name.startswith("smoke-2")
    assert "<title>smoke: passed</title>" in (folder / "report.html").read_text()
    assert (folder / "summary.md").read_text().startswith("# smoke: passed")
    progress = (folder / "progress.log").read_text().splitlines()
    assert len(progress) >= 2
    assert all("requests" in line for line in progress)
    assert any("p99" in line for line in progress)
    assert (folder / "k6.log").exists()


def test_who_stops_a_run_has_a_report_of_what_was(server: Server, tmp_path: Path) -> None:
    process = command(server, tmp_path, "smoke", "--rate", "50", "--duration", "60s")
    log = tmp_path / "smoke-latest/run.json"

    def asked() -> bool:
        lines = [line for file in tmp_path.glob("*/progress.log") for line in file.open()]
        return len(lines) >= 2

    eventually(asked)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate()
    assert process.returncode == 130, output
    stopped = record.from_json(log.read_text())
    assert stopped.passed is False
    assert stopped.parts[0].requests > 0
    assert stopped.seconds < 60


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["smok"], "invalid choice: 'smok'"),
        (["smoke", "--rate", "0"], "0: give a whole number above 0"),
        (["suite", "--only", "smoke,nothing"], "nothing: there are"),
        (["report"], "the following arguments are required: RUN"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], words: str) -> None:
    argv = [sys.executable, "loadtests", *arguments]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == os.EX_USAGE
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("direct", [True, False])
def test_the_record_says_where_a_crowd_went(server: Server, tmp_path: Path, direct: bool) -> None:
    """The gateway's URL is an alias of the server."""
    gateway = server.url.replace("127.0.0.1", "localhost")
    known = {"DIRECT_URL": server.url} if direct else {}
    arguments = ["s1-c10k-static", "--vus", "20"]
    process = command(server, tmp_path, *arguments, **{"GATEWAY_URL": gateway, **known})
    output, _ = process.communicate()
    assert process.returncode == 0, output
    target = record.read(tmp_path / "s1-c10k-static-latest").target
    way = ("direct", server.url) if direct else ("gateway", gateway)
    assert (target.via, target.url, len(target.replicas)) == (*way, 1)
