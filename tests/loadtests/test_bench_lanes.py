"""`bench-lanes`: the generator counts what the server counts, and a wrong answer is told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.experiment import builds
from loadtests.bench.experiment import generator as load
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.lanes import report, rows
from loadtests.bench.lanes.rows import Bench
from support import REPOSITORY
from support.servers import Server

pytestmark = pytest.mark.nightly

CPU = min(os.sched_getaffinity(0))

FICKLE = """\
#!{python}
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answered = 0

    def do_GET(self):
        Handler.answered += 1
        body = b"Hello, World!" if Handler.answered % 2 else b"Hello, World?"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

# All connections come at once.
ThreadingHTTPServer.request_queue_size = 128
host, port = sys.argv[sys.argv.index("--listen") + 1].split(":")
ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""
"""A server whose every other answer is wrong; the first, which shows that it is up, is right."""

PICKY = """\
#!/bin/sh
case "$*" in *--placement=least-loaded*|*"--placement least-loaded"*) exit 64;; esac
"""
"""A server that does not know one placement."""


def script(folder: Path, text: str) -> Path:
    file = folder / "server"
    file.write_text(text)
    file.chmod(0o755)
    return file


def bench_lanes(out: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "lanes", "--quick", "--rounds", "1"]
    argv += ["--profile", "dev", "--out", str(out), *map(str, arguments)]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def programs(binary: Path) -> Programs:
    """The builds that need no framework, unoptimised: nothing here is about speed."""
    return builds.obtain({"floor"}, binary, "dev")


def total(server: Server, name: str, label: str = "") -> float:
    """The sum of a metric over its series that have this label."""
    series = server.metrics()
    found = [key for key in series if key.startswith(f"{name}{{") and label in key]
    return sum(series[key] for key in found)


def requests(server: Server, route: str) -> float:
    return total(server, "corelane_requests_total", f'route="{route}"')


def test_requests_are_counted_as_the_server_counts_them(programs: Programs, server: Server) -> None:
    address = server.url.removeprefix("http://")
    place = load.Place([CPU])
    options = {"connections": 8, "ops": 1000, "seconds": 0.5, "warm_up": 0.1}
    mix = {**options, "rate": 400, "seed": 7, "work_share": 0.5}
    for mode, chosen in (("closed", options), ("open", mix)):
        with load.Generator(programs.generator, place, mode, address, **chosen) as generator:
            before = {route: requests(server, route) for route in ("/hello", "/work")}
            result = generator.measure()
            after = {route: requests(server, route) for route in ("/hello", "/work")}
        assert result["wrong"] == 0
        assert result["requests"] == sum(result["lanes"].values()) > 0
        for route, kind in (("/hello", "hello"), ("/work", "work")):
            told = result["latency_us"].get(kind, {"count": 0})["count"]
            assert told == after[route] - before[route]


def test_some_requests_come_with_a_body_and_a_part_is_measured_again(
    programs: Programs, server: Server
) -> None:
    address = server.url.removeprefix("http://")
    options = {"connections": 8, "bodies": 3, "seconds": 0.1, "warm_up": 0.0}
    with load.Generator(
        programs.generator, load.Place([CPU]), "closed", address, **options
    ) as generator:
        for _ in range(2):
            before = requests(server, "/hello")
            result = generator.measure()
            assert result["wrong"] == 0 < result["requests"]
            assert requests(server, "/hello") - before == result["requests"]


def test_idle_connections_stay_open(programs: Programs, server: Server) -> None:
    address = server.url.removeprefix("http://")
    options = {"connections": 200}
    with load.Generator(
        programs.generator, load.Place([CPU]), "idle", address, **options
    ) as generator:
        assert generator.measure()["requests"] == 199
        assert total(server, "corelane_connections") == 200


def test_a_run_is_measured_and_written(programs: Programs, tmp_path: Path) -> None:
    chosen = ["--only", "cpu", "--servers", "floor,corelane-server"]
    result = bench_lanes(tmp_path, *chosen, "--server", programs.server)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "bench-lanes.json").read_text())
    assert list(record["results"]["cpu"]) == ["floor", "corelane-server"]
    for (sample,) in record["results"]["cpu"].values():
        assert sample["requests"] >= rows.CONNECTIONS
        assert sample["wrong"] == 0
        assert sample["latency_us"]["hello"]["count"] == sample["requests"]
        # Two clocks of the kernel that count the same; threads that ended are in one only. One is
        # read after the other, and they may differ by a tick of 10 ms.
        tick = 1e4 / sample["requests"]
        assert 0 < sample["cpu_us_by_threads"] <= sample["cpu_us"] * 1.01 + tick
    text = (tmp_path / "bench-lanes.md").read_text()
    assert text == report.markdown(record)
    assert result.stdout == text + "\n"


def test_a_wrong_answer_fails_the_run(programs: Programs, tmp_path: Path) -> None:
    server = script(tmp_path, FICKLE.format(python=sys.executable))
    chosen = ["--only", "cpu", "--servers", "corelane-server", "--server", server]
    result = bench_lanes(tmp_path, *chosen)
    assert result.returncode == 1, result.stderr
    record = json.loads((tmp_path / "bench-lanes.json").read_text())
    ((sample,),) = record["results"]["cpu"].values()
    assert 0 < sample["faults"]["body"] == sample["wrong"] < sample["requests"]
    assert f"{sample['wrong']} of {sample['requests']:,} requests got a wrong answer" in (
        result.stdout
    )


def test_a_server_that_does_not_start_is_told(programs: Programs, tmp_path: Path) -> None:
    server = script(tmp_path, "#!/bin/sh\necho no such luck >&2\nexit 64\n")
    chosen = ["--only", "cpu", "--servers", "corelane-server", "--server", server]
    result = bench_lanes(tmp_path, *chosen)
    assert result.returncode == 1
    assert "corelane-server did not start" in result.stderr
    assert "no such luck" in result.stderr


def test_a_placement_that_the_server_refuses_is_left_out(tmp_path: Path) -> None:
    bench = Bench(Programs(script(tmp_path, PICKY), None, tmp_path), (0, 1), {})
    names = [server.name for server in rows.servers("mixed-two", bench)]
    assert names == ["corelane-server, hashed", "corelane-server, shared", "axum"]


def test_an_unknown_row_is_refused(tmp_path: Path) -> None:
    result = bench_lanes(tmp_path, "--only", "cpu,speed")
    assert result.returncode == 64
    assert "speed: there are cpu, mixed-one" in result.stderr


def closed(cpu_us: float) -> dict:
    """A sample of the row cpu."""
    return {
        "requests": 1000,
        "wrong": 0,
        "cpu_us": cpu_us,
        "cpu_us_by_threads": cpu_us,
        "generator_us": 5.0,
        "requests_per_second": 1e5,
        "busy": 0.9,
        "others_cores": 0.01,
        "stolen_cores": 0.0,
    }


def record(results: dict) -> dict:
    return {
        "plan": {"rows": list(results), "rounds": 3, "seconds": {row: 1.0 for row in results}},
        "machine": {"date": "today", "cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "x"},
        "versions": {"rustc": "1.95.0"},
        "profile": "release",
        "cpus": [0, 1],
        "generator_first": True,
        "load_average": {"before": [0.0] * 3, "after": [0.0] * 3},
        "work": {"ops_per_ms": 1e6, "hello_us": 7.0},
        "results": results,
    }


def cpu_record(corelane: list[float], peer: list[float]) -> dict:
    samples = {"floor": [5.0, 10.0, 6.0], "ntex": peer, "corelane-server": corelane}
    return record({"cpu": {name: [*map(closed, times)] for name, times in samples.items()}})


def test_ratios_are_of_the_same_round() -> None:
    (sentence, *_) = report.reading(cpu_record([5.25, 10.5, 9.0], [6.0, 11.0, 9.5]))
    # The medians of all rounds, 9.0 and 6.0, would say 1.50.
    assert "takes 1.05 (1.05–1.50) times the floor, which meets the target of 1.10" in sentence
    assert "Cheaper are none of the peers" in sentence


def test_a_missed_target_and_cheaper_peers_are_named() -> None:
    (sentence, *_) = report.reading(cpu_record([6.0, 12.0, 7.2], [5.5, 11.0, 7.0]))
    assert "takes 1.20 (1.20–1.20) times the floor, which misses the target" in sentence
    assert "Cheaper are ntex" in sentence


def test_every_row_has_its_table() -> None:
    def times(p99: float) -> dict:
        return {"0": 1.0, "50": 10.0, "90": 20.0, "99": p99, "99.9": 2 * p99, "100": 3 * p99}

    def mixed(p99: float) -> dict:
        latency = {"hello": times(p99), "work": times(2 * p99)}
        more = {"rate": 470.0, "queued": 3, "lag_us": times(40.0), "lane_shares": [1.0]}
        return {**closed(7.0), **more, "latency_us": latency}

    def few(rate: float, shares: list[float]) -> dict:
        one = {**mixed(300.0), "requests_per_second": rate}
        return {"8": {**one, "lane_shares": shares, "thread_shares": [0.6, 0.4]}}

    memory = {"requests": 9999, "wrong": 0, "kib_per_connection": 11.5, "kib_before": 9216}
    text = report.markdown(
        record(
            {
                "mixed-one": {"corelane-server": [mixed(8000.0)], "ntex": [mixed(7900.0)]},
                "mixed-two": {"corelane-server, hashed": [mixed(9000.0)], "axum": [mixed(4500.0)]},
                "few": {
                    "corelane-server, hashed": [few(4000.0, [0.75, 0.25])],
                    "axum": [few(5000.0, [])],
                },
                "memory": {"corelane-server": [memory]},
            }
        )
    )
    assert "Mixed load on one CPU, p99 of the fast requests in ms: ntex 7.9, corelane-" in text
    assert "Mixed load on two CPUs, p99 of the fast requests in ms: axum 4.5, corelane-" in text
    assert (
        "8 connections on two CPUs, requests/s: axum 5,000, corelane-server, hashed 4,000" in text
    )
    assert "| 0.75 (0.75–0.75) " in text
    assert "KiB of an idle connection: corelane-server 11.5." in text
    assert "meets the target of 12" in text
    assert "None of " in text
