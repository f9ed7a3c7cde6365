"""`bench connections`: what is held is what the server has, every request is counted, and the figures are judged
within rounds."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from loadtests.bench.connections import ladder, tuned
from loadtests.bench.connections.clients import Holders, holders, quantiles
from loadtests.bench.connections.climb import Climb
from loadtests.bench.connections.experiment import Connections
from loadtests.bench.connections.part import Rows
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.record import Record
from stack import becomes
from stack.programs import program
from stack.replica import Server
from support.scenarios import bench

pytestmark = pytest.mark.nightly

CPUS = sorted(os.sched_getaffinity(0))
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")

REFUSING = """\
#!{python}
# The same server, which lets fewer in than come.
import os, sys
arguments = sys.argv[1:]
if "--limits.connections" in arguments:
    arguments[arguments.index("--limits.connections") + 1] = "60"
os.execv("{server}", ["{server}", *arguments])
"""


def connections(out: Path, server: Path, only: str) -> subprocess.CompletedProcess[str]:
    plan = ("--quick", "--share", "0.02", "--profile", "dev", "--only", only)
    return bench("connections", out, *plan, "--server", server, "--tuner", program("node-tuner"))


def record_of(out: Path) -> Record:
    return Record.read(out / "bench-connections.json")


@pytest.fixture
def refusing(binary: Path, tmp_path: Path) -> Path:
    """A server that rejects most connections."""
    server = tmp_path / "server"
    server.write_text(REFUSING.format(python=sys.executable, server=binary))
    server.chmod(0o755)
    return server


def _memory(rows: Rows) -> None:
    for line in rows.lines():
        assert rows.values(line, "parked") == [200 if line.startswith("parked") else 0]


def _climb(rows: Rows) -> None:
    for arm in Climb.arms:
        assert rows.values(f"{arm}: asked once", "requests") == [2000]
        (woken,) = rows.values(f"{arm}: asked once", "wakes")
        assert woken >= (2000 if arm == "parked" else 0)
        assert rows.values(f"{arm}: drain", "requests") == [2000]


def _hot(rows: Rows) -> None:
    for row in rows.record.rows:
        if row["line"].endswith("(off)"):
            assert row["moves"] == 0
            assert len(row["lanes"]) == (1 if "all on" in row["line"] else 2)


def _held(rows: Rows) -> None:
    for arm, crowd in ladder.HELD.items():
        count = max(8, round(0.02 * crowd.connections))
        assert rows.values(arm, "open") == [count]
        # None of them ever has a whole header, and time for it is over (timeouts.header).
        assert rows.values(arm, "left") == [0 if crowd.manner == "slow-head" else count]
        if crowd.manner == "slow-head":
            assert rows.values(arm, "refusals.408") == [count]


def _at_once(rows: Rows) -> None:
    for line in rows.lines():
        assert rows.values(line, "requests") == [400]
        # What is answered after its due time cannot be faster than what is answered after its begin.
        (longest,), (due,) = (
            rows.values(line, f"{name}.max") for name in ("answer_ms", "since_due_ms")
        )
        assert 0 < longest <= due + 0.001


def _burst(rows: Rows) -> None:
    settings = {arm: sides["server"] for arm, sides in rows.record.facts["sysctls"].items()}
    queues = [int(settings[arm]["--backlog"]) for arm in (tuned.SAFE, tuned.UNSAFE)]
    assert queues[0] == tuned.BACKLOG < queues[1] == int(settings[tuned.UNSAFE][tuned.SOMAXCONN])
    assert tuned.SOMAXCONN not in settings[tuned.SAFE]
    assert len(rows.lines()) == len(tuned.CASES) * 3


CHECKS = {
    "memory": _memory,
    "climb": _climb,
    "hot": _hot,
    "held": _held,
    "at-once": _at_once,
    "burst": _burst,
}


@root
@pytest.mark.parametrize("part", CHECKS)
def test_a_part_is_measured_and_written(part: str, binary: Path, tmp_path: Path) -> None:
    files = [Path("/proc/self/ns/net"), Path("/proc/sys/net/core/somaxconn")]
    before = os.readlink(files[0]), files[1].read_text()
    result = connections(tmp_path, binary, part)
    assert result.returncode == 0, result.stderr
    record = record_of(tmp_path)
    assert record.labels("part") == [part]
    assert all(row["requests"] > 0 == row["wrong"] for row in record.rows)
    CHECKS[part](Rows(record, part))
    assert (tmp_path / "bench-connections.md").read_text() == Connections().page(record).markdown
    assert before == (os.readlink(files[0]), files[1].read_text())


@root
def test_refused_connections_fail_the_run(refusing: Path, tmp_path: Path) -> None:
    result = connections(tmp_path, refusing, "floor,server")
    assert result.returncode == 1, result.stderr
    record = record_of(tmp_path)
    line = f"server: {ladder.MOMENT}"
    assert 0 < Rows(record, "at-once").values(line, "wrong")[0] < 400
    assert sum(record.values("wrong", arm="floor")) == 0


@root
def test_a_connection_that_is_not_there_to_wait_ends_the_run(
    refusing: Path, tmp_path: Path
) -> None:
    result = connections(tmp_path, refusing, "climb")
    assert result.returncode == 1
    assert "connections failed: {'" in result.stderr
    assert not (tmp_path / "bench-connections.json").exists()


@pytest.fixture(scope="module")
def generator() -> Path:
    """An unoptimised build: nothing here is about speed."""
    return builds.build(["load-generator"], "dev") / "load-generator"


def held(
    generator: Path, server: Server, processes: int = 1, **options: object
) -> AbstractContextManager[Holders]:
    return holders(generator, [_address(server)], Place(CPUS), processes, **options)


def _address(server: Server) -> str:
    return server.url.removeprefix("http://")


def open_connections(server: Server) -> float:
    series = server.metrics()
    return sum(series[key] for key in series if key.startswith("corelane_connections{"))


def test_several_processes_hold_what_the_server_has(generator: Path, server: Server) -> None:
    with held(generator, server, processes=3) as clients:
        stage = clients.open(90, seconds=0.1)
        assert (stage.count, stage.failed) == (90, 0)
        assert len(stage.times("connected_ms")) == len(stage.times("answered_ms")) == 90
        # Spread over a tenth of a second, by each process.
        assert 90 < max(stage.columns["due_ms"]) < 100
        assert clients.look()["open"] == open_connections(server) == 90
        port = f":{int(_address(server).rpartition(':')[2]):04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        # 127.0.1.1 and so on, as the machine's integers (proc_net_tcp(5)).
        mine = {row[1].partition(":")[0] for row in rows if row[2].endswith(port)}
        assert mine >= {"0101007F", "0102007F", "0103007F"}
        again = clients.ask()
        assert (again.count, again.failed, len(again.times("answered_ms"))) == (90, 0, 90)
    becomes(lambda: open_connections(server), 0)


def test_a_wrong_page_is_counted(generator: Path, server: Server, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("Good bye")
    with held(generator, server, page="/hello", file=tmp_path / "page") as clients:
        assert clients.open(5).faults == {"body": 5}


def test_slow_headers_are_refused(generator: Path, start: Callable[..., Server]) -> None:
    server = start("--timeouts.header", "1s")
    with held(generator, server, manner="slow-head") as clients:
        assert clients.open(8, ask=False).failed == 0
        becomes(lambda: clients.look()["open"], 0)
        found = clients.look()
    assert found["refusals"] == {"408": 8}
    assert len(found["lasted_s"]) == 8


def test_slow_readers_are_held_and_cost_nobody_a_lane(
    generator: Path, start: Callable[..., Server], tmp_path: Path
) -> None:
    page = tmp_path / "large.bin"
    page.write_bytes(bytes(ladder.LARGE_BYTES))
    server = start("--lanes", "1", static=tmp_path)
    way = {"page": "/static/large.bin", "file": page, "manner": "slow-read"}
    with held(generator, server, **way) as clients, held(generator, server) as others:
        assert clients.open(8, ask=False).failed == 0
        assert others.open(3).failed == 0
        assert clients.look()["open"] == 8


def test_requests_are_counted_as_the_server_counts_them(generator: Path, server: Server) -> None:
    def seen(route: str) -> float:
        series = server.metrics().items()
        own = f'route="{route}"'
        return sum(
            n for key, n in series if key.startswith("corelane_requests_total{") and own in key
        )

    options = {"connections": 8, "ops": 1000, "seconds": 0.5, "warm_up": 0.1}
    mix = {**options, "rate": 400, "seed": 7, "work_share": 0.5}
    for mode, chosen in (("closed", options), ("open", mix)):
        with Generator(generator, Place(CPUS[:1]), mode, _address(server), **chosen) as load:
            before = {route: seen(route) for route in ("/hello", "/work")}
            result = load.measure()
            after = {route: seen(route) for route in ("/hello", "/work")}
        assert result["wrong"] == 0
        assert result["requests"] == sum(result["lanes"].values()) > 0
        for route, kind in (("/hello", "hello"), ("/work", "work")):
            told = result["latency_us"].get(kind, {"count": 0})["count"]
            assert told == after[route] - before[route]


def test_a_mix_of_sizes_is_counted_by_size(generator: Path, server: Server) -> None:
    options = {"rate": 300, "seconds": 1, "warm_up": 0.1, "works": "100=0.3,5000=0.3"}
    with Generator(generator, Place(CPUS), "open", _address(server), **options) as load:
        found = load.measure()
    count = {name: times["count"] for name, times in found["latency_us"].items()}
    assert found["wrong"] == 0
    assert count["work"] == count["work_100"] + count["work_5000"]
    assert count["all"] == count["hello"] + count["work"] == found["requests"]
    assert min(count.values()) > 0


def test_percentiles_are_nearest_ranks() -> None:
    assert quantiles([float(number) for number in range(200, 0, -1)]) == {
        "p50": 100,
        "p99": 198,
        "max": 200,
    }
    assert quantiles([]) == {}


def rows_of(part: str, lines: dict[str, list[dict]]) -> Rows:
    """A record of these figures, round by round."""
    found = [
        {"part": part, "arm": line, "line": line, "round": number, **figures}
        for line, rounds in lines.items()
        for number, figures in enumerate(rounds, 1)
    ]
    return Rows(Record("connections", {}, rows=found), part)


def test_the_narrowest_window_counts_every_round() -> None:
    def cell(p50: float, longest: float, failed: int = 0) -> dict:
        return {"wrong": failed, "answer_ms": {"p50": p50, "max": longest}}

    now, soon, later = (f"server: {name}" for name in (ladder.MOMENT, "within 0.5 s", "within 1 s"))
    found = {now: [cell(200, 400)], soon: [cell(20, 290)] * 2, later: [cell(5, 90, failed=1)]}
    assert ladder.narrowest(rows_of("at-once", found), "server").endswith("come within 0.5 s")
    found[soon].append(cell(20, 310))
    assert "not met" in ladder.narrowest(rows_of("at-once", found), "server")
