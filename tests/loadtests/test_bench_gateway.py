"""`bench-gateway`: every proxy answers from the same pool, and ratios are those of a round."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.gateway import levers, proxies, report, report_levers, shipped
from loadtests.bench.gateway.proxies import GATEWAY, HAPROXY, LEAN, LOGS, MINIMAL, NGINX
from loadtests.bench.gateway.shipped import Endpoint
from support import REPOSITORY
from tools import resolve

COMPARED = [MINIMAL, LEAN, GATEWAY, GATEWAY + LOGS, NGINX + LOGS, HAPROXY + LOGS]
BY_VALUES = {"nothing", "everything logged", "router alone"}
"""Levers that change nothing where the chart's values say the same already; and every policy's."""
POLICIES = {"round robin", "least of two", "least of all", "random"}
POOL = [Endpoint(18100, 18200), Endpoint(18101, 18201)]


def bench_gateway(out: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "gateway", "--quick", "--rounds", "1"]
    argv += ["--profile", "dev", "--out", str(out), *map(str, arguments)]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tools() -> dict[str, Path]:
    return resolve.ensure(["helm", "supervisord", "envoy"])


def test_a_run_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    chosen = ["--only", ",".join(COMPARED), "--rate", "200", "--server", binary]
    result = bench_gateway(tmp_path, *chosen)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "bench-gateway.json").read_text())
    assert set(record["results"]) == set(COMPARED)
    for (sample,) in record["results"].values():
        for part in report.parts(sample):
            assert part["requests"] > 0 == part["wrong"]
            assert part["cpu_us"] > 0
            # Only the server names its lane: a proxy did not answer in its stead.
            assert part["lanes"] == {"0": part["requests"]}
    assert (tmp_path / "bench-gateway.md").read_text() == report.markdown(record)


def test_a_lever_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    chosen = ["--levers", "--only", "no request ID", "--server", binary]
    result = bench_gateway(tmp_path, *chosen)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "bench-gateway-levers.json").read_text())
    ((sample,),) = record["results"].values()
    assert all(part["wrong"] == 0 < part["requests"] for part in report.parts(sample))
    assert "| no request ID | generate_request_id: false |" in result.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [((), f"there are {MINIMAL}, {LEAN}"), (("--levers",), f"there are {levers.LEVERS[0].name}, ")],
)
def test_an_unknown_name_is_told_before_anything_is_built(
    tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    missing = tmp_path / "no-server"
    result = bench_gateway(tmp_path, "--only", "apache", "--server", missing, *flags)
    assert result.returncode == 1
    assert f"--only: apache: {words}" in result.stderr


def test_every_lever_changes_something_that_envoy_takes(
    tools: dict[str, Path], tmp_path: Path
) -> None:
    rendered = shipped.configuration(tools, POOL)
    base = proxies.envoy("shipped", rendered)
    same, refused = [], {}
    for lever in levers.LEVERS:
        proxy = lever.applied(rendered)
        if not proxy.differs_from(base):
            same.append(lever.name)
        file = tmp_path / "envoy.json"
        file.write_text(proxies.filled(proxy.text, {"PORT": "18000"}))
        argv = [tools["envoy"], "--mode", "validate", "-c", file, "-l", "error"]
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
        if result.returncode:
            refused[lever.name] = result.stderr
    assert refused == {}
    assert set(same) <= BY_VALUES | POLICIES
    assert len(POLICIES & set(same)) <= 1


def part(cpu_us: float) -> dict:
    """A run of the generator."""
    return {
        "requests": 1000,
        "wrong": 0,
        "cpu_us": cpu_us,
        "user_share": 0.75,
        "sleeps": 0.5,
        "requests_per_second": 2e4,
        "busy": 0.9,
        "others_cores": 0.01,
        "stolen_cores": 0.0,
        "latency_us": {"hello": {"99": 4000.0}},
    }


def record(results: dict) -> dict:
    return {
        "plan": {"rounds": 3, "seconds": 1.0, "rate": 1e4},
        "machine": {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "x"},
        "versions": {"Envoy": "1.40.0"},
        "cpus": [0, 1],
        "load_average": {"before": [0.0] * 3, "after": [0.0] * 3},
        "results": results,
    }


def compared(gateway: list[float]) -> dict:
    """Both loops with the same figures: minimal Envoy's, and these of the gateway."""
    times = {MINIMAL: [20.0, 40.0, 24.0], GATEWAY: gateway}
    return record(
        {
            name: [{"open": part(each), "closed": part(each)} for each in values]
            for name, values in times.items()
        }
    )


def test_ratios_are_of_the_same_round() -> None:
    (sentence, *_) = report.reading(compared([22.0, 44.0, 36.0]))
    # The medians of all rounds, 36 and 24, would say 1.50.
    assert sentence.startswith(f"{GATEWAY} takes 1.10 (1.10–1.50) at the same rate")
    assert "meets the target of at most 1.15" in sentence


def test_a_missed_target_is_told() -> None:
    (sentence, *_) = report.reading(compared([24.0, 48.0, 28.8]))
    assert "misses the target of at most 1.15" in sentence


def test_a_lever_is_compared_within_pairs() -> None:
    def sample(*pairs: tuple[float, float]) -> dict:
        return {"pairs": [[part(base), part(changed)] for base, changed in pairs]}

    samples = [
        sample((20.0, 19.0), (40.0, 38.0), (20.0, 60.0)),
        sample((20.0, 22.0)),
        sample((30.0, 27.0)),
    ]
    assert [*map(report_levers.difference, samples)] == pytest.approx([-5.0, 10.0, -10.0])
    text = report_levers.markdown(record({"no request ID": samples}))
    assert "-5.0 (-10.0 to +10.0)" in text
    assert "None of 10,000 requests" in text
