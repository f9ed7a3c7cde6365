"""Runs each benchmark with minimal load: responses are correct, and the record reproduces the
report.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.cli import EXPERIMENTS
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.record import Record
from loadtests.bench.instructions.rows import FILE, ROWS, Budget
from stack import PATIENCE, REPOSITORY, eventually, pids
from stack.programs import program
from stack.replica import Server
from support.scenarios import bench

pytestmark = pytest.mark.nightly

QUICK = ("--quick", "--profile", "dev")
BURST = ("--quick", "--share", "0.02", "--profile", "dev")

RUNS = {
    "gateway": (*QUICK, "--rate", "200"),
    "balancing": ("--profile", "dev", "--rounds", "1", "--only", "2x1,failing"),
    "capacity": (*QUICK, "--only", "work,slots,projects"),
    "mixed": (*QUICK, "--only", "many-many"),
    "threads": (*QUICK, "--only", "20,1000,10k,1M,one thread,pool of 16,2 hashed lanes"),
    "competitors": (*QUICK, "--connections", "200", "--only", "floor,corelane-server"),
    "connections memory": (*BURST, "--only", "memory"),
    "connections climb": (*BURST, "--only", "climb"),
    "connections held": (*BURST, "--only", "held"),
    "connections at-once": (*BURST, "--only", "at-once"),
    "soak": ("--profile", "dev", "--seconds", "20", "--clients", "50"),
}


@pytest.mark.parametrize("run", RUNS)
def test_a_small_run_is_right_and_reported(run: str, binary: Path, tmp_path: Path) -> None:
    name = run.split()[0]
    experiment, out = EXPERIMENTS[name], tmp_path / f"bench-{name}"
    if experiment.root and os.geteuid() != 0:
        pytest.skip("only root makes network namespaces")
    more = ("--corelane", program("corelane")) if name == "capacity" else ()
    result = bench(name, tmp_path, *RUNS[run], "--server", binary, *more)
    assert result.returncode == 0, result.stderr
    record = Record.read(out.with_suffix(".json"))
    assert record.rows and not record.missing
    assert not [row["error"] for row in record.rows if "error" in row]
    assert out.with_suffix(".md").read_text() == experiment.page(record).markdown
    if name not in ("balancing", "soak"):
        assert record.total("requests") > 0 == record.total("wrong")
    for row in record.rows:
        # Only the server adds its lane to a response.
        if name in ("gateway", "mixed"):
            assert sum(row["lanes"].values()) == row["requests"]
        # The header timeout has passed for all of them.
        if "slow headers" in row.get("line", ""):
            assert (row["left"], row["refusals"]) == (0, {"408": row["open"]})


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_tasks_are_listed_and_an_unknown_one_is_rejected(name: str, tmp_path: Path) -> None:
    base = ["HEAD"] if name == "compare" else []
    assert bench(name, tmp_path, *base, "--list").returncode == 0
    result = bench(name, tmp_path, *base, "--only", "iis")
    assert (result.returncode, "--only iis: allowed are " in result.stderr) == (1, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("loop", ["closed", "open"])
def test_requests_are_counted_as_the_server_counts_them(
    loop: str, server: Server, tmp_path: Path
) -> None:
    def seen(route: str) -> float:
        series, own = server.metrics().items(), f'route="{route}"'
        return sum(
            n for key, n in series if key.startswith("corelane_requests_total{") and own in key
        )

    options = {"connections": 8, "ops": 1000, "seconds": 0.5, "warm_up": 0.1}
    options |= {"rate": 400, "work_share": 0.5} if loop == "open" else {}
    place, to = Place(sorted(os.sched_getaffinity(0))[:1]), server.url.removeprefix("http://")
    with Generator(program("load-generator"), place, loop, to, **options) as load:
        before = {route: seen(route) for route in ("/hello", "/work")}
        result = load.measure()
    assert result["wrong"] == 0 < result["requests"] == sum(result["lanes"].values())
    for route, count in before.items():
        told = result["latency_us"].get(route[1:], {"count": 0})["count"]
        assert told == seen(route) - count


SLOW = """\
#!{python}
import os, sys
flags = ["info,corelane::request=debug" if one == "warn" else one for one in sys.argv[1:]]
os.execv("{server}", ["{server}", *flags])
"""
"""A server that logs every request."""


def test_more_work_for_each_request_is_found(binary: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text(SLOW.format(python=sys.executable, server=binary))
    slow.chmod(0o755)
    builds = ("--server", slow, "--base-server", binary)
    result = bench(
        "compare", tmp_path, "HEAD", *QUICK, *builds, "--only", "direct,closed", "--rounds", "6"
    )
    assert result.returncode == 99, result.stderr
    assert "**Head is slower than base, after 6 rounds: cpu-direct costs " in result.stdout
    both = ("--server", binary, "--base-server", binary)
    result = bench("compare", tmp_path, "HEAD", *QUICK, *both, "--rounds", "1", "--allow-undecided")
    assert result.returncode == 0, result.stderr
    assert "Head is undecided" in result.stdout
    assert bench("compare", tmp_path, "no-such-branch").returncode == os.EX_USAGE


def test_a_row_with_more_instructions_than_committed_fails(binary: Path, tmp_path: Path) -> None:
    plan = ("--rounds", "1", "--requests", "50", "--only", "not found", "--server", binary)
    budget = tmp_path / "budget.toml"
    Budget(Budget.read(FILE).toolchain, {"not found": 100}).write(budget)
    result = bench("instructions", tmp_path, *plan, "--check", "--budget", budget)
    assert result.returncode == 1, result.stderr
    assert "times what is committed: not found." in result.stdout
    Budget(Budget.read(FILE).toolchain, {"not found": 1_000_000}).write(budget)
    assert bench("instructions", tmp_path, *plan, "--check", "--budget", budget).returncode == 0
    assert list(Budget.read(FILE).instructions) == [row.name for row in ROWS]


def started_by(parent: int) -> set[int]:
    own = set(pids.children(parent))
    return own.union(*map(started_by, own))


def test_what_a_benchmark_started_ends_with_it(binary: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "loadtests/bench", "mixed", "--quick", "--only", "postgres"]
    argv += ["--server", binary, "--profile", "dev", "--out", tmp_path]
    null = subprocess.DEVNULL
    run = subprocess.Popen(argv, cwd=REPOSITORY, stdout=null, stderr=null)

    def all_run() -> bool:
        assert run.poll() is None, "it has ended before it was told to"
        return {"postgres", "corelane-server"} <= set(map(pids.name, started_by(run.pid)))

    try:
        # The first build of a fresh clone is slow.
        eventually(all_run, patience=20 * PATIENCE)
        started = started_by(run.pid)
    finally:
        run.terminate()
    assert run.wait(PATIENCE) == 130
    eventually(lambda: {pids.state(pid) for pid in started} == {"X"}, "all are gone")
