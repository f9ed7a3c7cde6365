"""`bench gateway` and `bench levers`: every proxy answers from the same pool, and rounds and pairs are judged within themselves."""

import subprocess
from pathlib import Path

import pytest

from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.plan import Plan
from loadtests.bench.experiment.record import Record
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.experiment import Gateway
from loadtests.bench.gateway.levers import CHANGED, LEVERS, PAIRS, SHIPPED, Levers
from loadtests.bench.gateway.proxies import (
    GATEWAY,
    HAPROXY,
    LEAN,
    LOGS,
    MINIMAL,
    NGINX,
    Endpoint,
    PoolStand,
)
from support.scenarios import bench
from tools import resolve

pytestmark = pytest.mark.nightly

QUICK = ("--quick", "--profile", "dev")

COMPARED = [MINIMAL, LEAN, GATEWAY, GATEWAY + LOGS, NGINX + LOGS, HAPROXY + LOGS]


def test_a_run_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    chosen = ["--only", ",".join(COMPARED), "--rate", "200", "--server", binary]
    result = bench("gateway", tmp_path, *QUICK, *chosen)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-gateway.json")
    assert record.labels("proxy") == [name for name in proxies.NAMES if name in COMPARED]
    assert len(record.rows) == 2 * len(COMPARED)
    for row in record.rows:
        assert row["requests"] > 0 == row["wrong"]
        assert row["cpu_us"] > 0
        # Only the server names its lane: a proxy did not answer in its stead.
        assert row["lanes"] == {"0": row["requests"]}
    assert (tmp_path / "bench-gateway.md").read_text() == Gateway().page(record).markdown


def test_an_unknown_name_is_rejected_before_anything_is_built(tmp_path: Path) -> None:
    result = bench("gateway", tmp_path, "--only", "apache")
    assert result.returncode == 1
    assert f"--only apache: allowed are {GATEWAY}, " in result.stderr


def reading(gateway: list[float]) -> str:
    """What a report says of the gateway with these costs in three rounds, in both loops."""
    row = {"user_share": 0.75, "sleeps": 0.5, "requests_per_second": 2e4, "busy": 0.9}
    row |= {"requests": 1000, "wrong": 0, "latency_us": {"hello": {"99": 4000.0}}}
    costs = {MINIMAL: [20.0, 40.0, 24.0], GATEWAY: gateway}
    rows = [
        {**row, "proxy": name, "loop": loop, "round": number, "cpu_us": cost}
        for name, found in costs.items()
        for number, cost in enumerate(found, 1)
        for loop in ("closed", "open")
    ]
    machine = {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "x"}
    record = Record("gateway", {"profile": "release"}, machine=machine, cpus=[0, 1])
    record.facts, record.rows = {"rate": 1e4}, rows
    return Gateway().page(record).markdown


def test_ratios_are_of_the_same_round() -> None:
    text = reading([22.0, 44.0, 36.0])
    # The medians of all rounds, 36 and 24, would say 1.50.
    assert f"{GATEWAY} takes 1.10 (1.10–1.50) at the same rate" in text
    assert "That meets the target of at most 1.15" in text
    assert "That misses the target of at most 1.15" in reading([24.0, 48.0, 28.8])


@pytest.fixture(scope="module")
def stand() -> PoolStand:
    tools = resolve.ensure(["helm", "supervisord", "envoy"])
    pool = [Endpoint(port=9001, admin_port=9002)]
    programs, rendered = Programs(Path(), Path(), tools), proxies.configuration(tools, pool)
    return PoolStand(Plan(1), (0, 1), programs=programs, endpoints=pool, rendered=rendered)


@pytest.mark.parametrize("name", LEVERS)
def test_a_lever_is_a_change_that_envoy_accepts(
    stand: PoolStand, name: str, tmp_path: Path
) -> None:
    shipped, changed = LEVERS[name].arms(stand)
    assert (shipped.text == changed.text) == (name == "nothing")
    argv = changed.argv(stand.programs, "127.0.0.1:1", tmp_path)
    result = subprocess.run(
        [*argv, "--mode", "validate"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_a_lever_is_measured_in_pairs(binary: Path, tmp_path: Path) -> None:
    chosen = ["--only", "no HTTP/1.0", "--rate", "200", "--server", binary]
    result = bench("levers", tmp_path, *QUICK, *chosen)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-levers.json")
    assert len(record.rows) == 2 * 2 * PAIRS
    assert all(row["requests"] > 0 == row["wrong"] and row["beside_us"] > 0 for row in record.rows)


def test_a_change_is_told_by_its_pairs() -> None:
    row = {"lever": "no retries", "loop": "closed", "round": 1, "requests": 1, "wrong": 0}
    # Each pair is 10% cheaper than its own, whatever the machine did meanwhile.
    costs = [(0, SHIPPED, 20.0), (0, CHANGED, 18.0), (1, SHIPPED, 60.0), (1, CHANGED, 54.0)]
    row |= {"lanes": {"0": 3, "1": 1}, "beside_us": 1.0, "latency_us": {"hello": {"99": 1.0}}}
    rows = [{**row, "pair": pair, "arm": arm, "cpu_us": cost} for pair, arm, cost in costs]
    plan = {"profile": "release", "options": {"lanes": 2, "instructions": False}}
    machine = {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "x"}
    record = Record("levers", plan, machine=machine, cpus=[0, 1], rows=rows)
    lines = Levers().page(record).markdown.splitlines()
    line = [line for line in lines if line.startswith("| no retries ")][-1]
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[3] == "-10.0 (-10.0 to -10.0)"
    assert cells[6] == "1.50"
