"""The connection ladder: what is held is what the server has, and what is refused is told."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from loadtests import record
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.ladder import network, report
from loadtests.ladder.holders import Holders, holders
from loadtests.ladder.summary import quantiles
from support import REPOSITORY, becomes
from support.servers import Server

CPUS = sorted(os.sched_getaffinity(0))
HELLO = ("/hello", "Hello, World!")

REFUSING = """\
#!{python}
# The same server, which lets fewer in than come.
import os, sys
arguments = sys.argv[1:]
arguments[arguments.index("--limits.connections") + 1] = "60"
os.execv("{server}", ["{server}", *arguments])
"""


@pytest.fixture(scope="module")
def generator() -> Path:
    """An unoptimised build: nothing here is about speed."""
    return builds.build(builds.BENCH, ["load-generator", "floor"], "dev") / "load-generator"


def ladder(out: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests", "ladder", "--quick", "--profile", "dev"]
    argv += ["--out", str(out), *map(str, arguments)]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def held(generator: Path, server: Server, **options: object) -> AbstractContextManager[Holders]:
    address = server.url.removeprefix("http://")
    return holders(generator, [address], cpus=CPUS, **options)


def open_connections(server: Server) -> float:
    series = server.metrics()
    return sum(series[key] for key in series if key.startswith("corelane_connections{"))


def test_several_processes_hold_what_the_server_has(generator: Path, server: Server) -> None:
    with held(generator, server, connections=90, most=40) as clients:
        stage = clients.open(90, 0.1, ask=True)
        assert (stage.count, stage.failed) == (90, 0)
        assert len(stage.times("connected_ms")) == len(stage.times("answered_ms")) == 90
        assert 0 < stage.times("answered_ms")[0] < stage.last("answered_ms")
        # Spread over a tenth of a second, by each process.
        assert 90 < max(stage.columns["due_ms"]) < 100
        assert clients.look()["open"] == open_connections(server) == 90
        again = clients.ask(0.0)
        assert (again.count, again.failed, len(again.times("answered_ms"))) == (90, 0, 90)
    becomes(lambda: open_connections(server), 0)


def test_a_wrong_page_is_told(generator: Path, server: Server, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("Good bye")
    page = ("/hello", tmp_path / "page")
    with held(generator, server, connections=5, most=5, page=page) as clients:
        assert clients.open(5, 0.0, ask=True).faults == {"body": 5}


def test_connections_come_from_several_addresses(generator: Path, server: Server) -> None:
    address = server.url.removeprefix("http://")
    options = {"from": "127.0.0.2,127.0.0.3"}
    port = int(address.rpartition(":")[2])
    with Generator(generator, Place(CPUS), "hold", address, **options) as client:
        client.measure(json.dumps({"do": "open", "connections": 6, "ask": True}))
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        # The kernel writes addresses as the machine's integers (proc_net_tcp(5)).
        mine = [row[1].partition(":")[0] for row in rows if row[2].endswith(f":{port:04X}")]
    assert sorted(mine) == 3 * ["0200007F"] + 3 * ["0300007F"]


def test_slow_headers_are_refused(generator: Path, start: Callable[..., Server]) -> None:
    server = start("--timeouts.header", "1s")
    with held(generator, server, connections=8, most=8, manner="slow-head") as clients:
        assert clients.open(8, 0.0, ask=False).failed == 0
        becomes(lambda: clients.look()["open"], 0)
        found = clients.look()
    assert found["refusals"] == {"408": 8}
    assert 0.9 < found["lasted_s"][0]


def test_slow_readers_are_held_and_cost_nobody_a_lane(
    generator: Path, start: Callable[..., Server], tmp_path: Path
) -> None:
    page = tmp_path / "large.bin"
    page.write_bytes(bytes(4 << 20))
    server = start("--lanes", "1", static=tmp_path)
    way = {"page": ("/static/large.bin", page), "manner": "slow-read"}
    with held(generator, server, connections=8, most=8, **way) as clients:
        assert clients.open(8, 0.0, ask=False).failed == 0
        with held(generator, server, connections=3, most=3, page=_hello(tmp_path)) as others:
            assert others.open(3, 0.0, ask=True).failed == 0
        assert clients.look()["open"] == 8


def _hello(folder: Path) -> tuple[str, Path]:
    target, body = HELLO
    (folder / "hello").write_text(body)
    return target, folder / "hello"


def test_a_mix_of_sizes_is_told_by_size(generator: Path, server: Server) -> None:
    options = {"rate": 300, "seconds": 1, "warm_up": 0.1, "works": "100=0.3,5000=0.3"}
    address = server.url.removeprefix("http://")
    with Generator(generator, Place(CPUS), "open", address, **options) as load:
        found = load.measure()
    count = {name: times["count"] for name, times in found["latency_us"].items()}
    assert found["wrong"] == 0
    assert count["work"] == count["work_100"] + count["work_5000"]
    assert count["all"] == count["hello"] + count["work"] == found["requests"]
    assert min(count.values()) > 0


def test_nothing_is_set_outside(server: Server) -> None:
    before = {
        name: Path(f"/proc/sys/{name.replace('.', '/')}").read_text() for name in network.SYSCTLS
    }
    assert not network.prepare(network.network())
    assert before == {
        name: Path(f"/proc/sys/{name.replace('.', '/')}").read_text() for name in before
    }


def test_a_run_is_measured_and_written(generator: Path, binary: Path, tmp_path: Path) -> None:
    chosen = ["--only", "idle,at-once", "--rungs", "50", "--server", binary]
    before = Path("/proc/sys/net/core/somaxconn").read_text()
    result = ladder(tmp_path, *chosen, "--results", tmp_path / "results")
    assert result.returncode == 0, result.stderr
    told = json.loads((tmp_path / "results" / "ladder.json").read_text())
    assert [(cell["path"], cell["connections"]) for cell in told["cells"]["idle"]] == [
        ("direct", 50),
        ("gateway", 50),
    ]
    for cell in told["cells"]["idle"]:
        assert cell["left"] == 50
        assert cell["opened"]["failed"] == cell["beside"]["wrong"] == 0
        assert cell["beside"]["requests"] > 0 < cell["alone"]["requests"]
    for cell in told["cells"]["at-once"]:
        assert (cell["requests"], cell["failed"]) == (200, 0)
        assert 0 < cell["answer_ms"]["p50"] <= cell["answer_ms"]["max"]
        # What is answered after its due time cannot be faster than what is answered after its begin.
        assert cell["answer_ms"]["max"] <= cell["since_due_ms"]["max"] + 0.001
    assert (tmp_path / "results" / "ladder.md").read_text() == report.markdown(told)
    run = record.read(tmp_path / "ladder-latest")
    assert run.passed
    names = {part.name: part for part in run.parts}
    assert names["gateway, 50 idle"].figures["p99_ratio"].value > 0
    assert names["server, new connections in the same moment"].requests == 200
    assert before == Path("/proc/sys/net/core/somaxconn").read_text()


def test_refused_connections_fail_the_run(generator: Path, binary: Path, tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text(REFUSING.format(python=sys.executable, server=binary))
    server.chmod(0o755)
    chosen = ["--only", "at-once", "--paths", "direct", "--server", server]
    result = ladder(tmp_path, *chosen)
    assert result.returncode == 99, result.stderr
    run = record.read(tmp_path / "ladder-latest")
    assert not run.passed
    parts = {part.name: part for part in run.parts}
    assert 0 < parts["server, new connections in the same moment"].failed < 200
    assert parts["floor, new connections in the same moment"].failed == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "fast"], "fast: there are idle, slow, at-once"),
        (["--rungs", "10,none"], "none: give a whole number above 0"),
    ],
)
def test_bad_usage_is_told(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = ladder(tmp_path, *arguments)
    assert result.returncode == os.EX_USAGE
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_percentiles_are_nearest_ranks() -> None:
    times = [float(number) for number in range(1, 201)]
    found = quantiles(times)
    assert (found["p50"], found["p90"], found["p99"], found["max"]) == (100, 180, 198, 200)
    assert quantiles([]) == {}


def test_the_narrowest_window_counts_every_round() -> None:
    def cell(window: float, p50: float, longest: float, failed: int = 0) -> dict:
        times = {"p50": p50, "max": longest}
        return {
            "connections": "new",
            "come": "",
            "window_s": window,
            "failed": failed,
            "answer_ms": times,
        }

    slow, good, lost = cell(0.0, 200, 400), cell(0.5, 20, 290), cell(1.0, 5, 90, failed=1)
    assert "spread over 0.5 s" in report.narrowest([slow, good, good, lost])
    assert "not met" in report.narrowest([slow, good, cell(0.5, 20, 310), lost])
