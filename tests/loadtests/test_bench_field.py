"""`bench field`: contenders are measured in interleaved rounds, and what is wrong is told."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.bench.field import budget, running, warm, workloads
from loadtests.bench.field.bench import Bench, Plan, Seconds
from loadtests.bench.field.contender import Contender, Start, size_of
from loadtests.bench.field.contenders import CONTENDERS, ORDER
from loadtests.bench.field.parts import PARTS
from loadtests.bench.field.turns import Turns
from support import REPOSITORY, eventually

pytestmark = pytest.mark.nightly

FICKLE = """\
#!{python}
# Every third answer is wrong, but none of the first ones, which only ask whether a route is there; there is no other route.
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answered = 0

    def do_GET(self):
        Handler.answered += 1
        body = b"Hello, World!" if Handler.answered < 50 or Handler.answered % 3 else b"Hello, World?"
        self.send_response(200 if self.path == "/hello" else 404)
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

BROODING = """\
import os, signal, sys, time
block = bytearray(64 << 20)
for page in range(0, len(block), 4096):
    block[page] = 1
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    signal.pause()
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b"Hello, World!")

HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""A server with 64 MiB that it shares with a worker."""

LATE = """\
import signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    late = 0

    def do_GET(self):
        status, Handler.late = (408 if Handler.late else 200), max(0, Handler.late - 1)
        self.send_response(status)
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b"Hello, World!")

def wake(*_):
    Handler.late = 3

signal.signal(signal.SIGCONT, wake)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""A server that takes its own pause for that of its next clients."""

COMPILING = """\
import queue, sys, threading, time
from http.server import BaseHTTPRequestHandler, HTTPServer

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def compiler():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as name:
        name.write("compiler of it")
    while True:
        work.get()
        burn(0.05)
        done.put(None)

class Handler(BaseHTTPRequestHandler):
    left = 3

    def do_GET(self):
        if Handler.left:
            Handler.left -= 1
            work.put(None)
            done.get()
        burn(0.05)
        self.send_response(200)
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b"Hello, World!")

work, done = queue.Queue(), queue.Queue()
threading.Thread(target=compiler, daemon=True).start()
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""A server that compiles for its first requests."""

CPU = min(os.sched_getaffinity(0))


def field(out: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "field", "--quick", "--profile", "dev"]
    argv += ["--out", str(out), *map(str, arguments)]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def script(folder: Path, text: str) -> Path:
    file = folder / "server"
    file.write_text(text.format(python=sys.executable))
    file.chmod(0o755)
    return file


def some_contender(**changes: object) -> Contender:
    return replace(CONTENDERS["floor"], **changes)


def brooding(folder: Path) -> Contender:
    file = folder / "brooding.py"
    file.write_text(BROODING)
    return some_contender(argv=lambda _, start: [sys.executable, str(file), str(start.port)])


def test_a_run_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    chosen = ("--contenders", "floor,corelane-server", "--only", "hello,div,file-10k,mixed")
    result = field(tmp_path, "--server", binary, *chosen)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "bench.json").read_text())
    assert list(record["contenders"]) == ["floor", "corelane-server"]
    assert record["contenders"]["corelane-server"]["installed"]["program_bytes"] > 1_000_000
    assert set(record["cells"]) == {"hello", "div", "file-10k"}
    assert set(record["cells"]["hello"]) == {"floor", "corelane-server"}
    for row in record["cells"].values():
        for (sample,) in row.values():
            closed, loop = sample["closed"], sample["open"]
            assert sample["round"] == 1
            assert closed["requests"] > 0 == closed["wrong"]
            assert closed["cpu_us"] > 0
            assert loop["requests"] > 0 == loop["wrong"]
            latency = loop["latency_ms"]
            assert latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
            assert loop["percentiles"][-1] == [100, latency["max"]]
    (mixed,) = record["mixed"]["corelane-server"]
    assert mixed["wrong"] == 0
    assert mixed["slow"]["p50"] > mixed["fast"]["p50"]
    assert "about" in result.stderr and "took" in result.stderr, "the budget is told"


def test_a_wrong_reply_fails_the_run_and_a_missing_route_is_told(tmp_path: Path) -> None:
    chosen = ("--contenders", "corelane-server", "--only", "hello,div")
    result = field(tmp_path, "--server", script(tmp_path, FICKLE), *chosen)
    assert result.returncode == 1, result.stderr
    record = json.loads((tmp_path / "bench.json").read_text())
    (sample,) = record["cells"]["div"]["corelane-server"]
    assert "/div/4 is answered 404" in sample["error"]


def test_one_that_does_not_start_is_left_out(tmp_path: Path) -> None:
    server = script(tmp_path, "#!/bin/sh\necho no such luck >&2; exit 3\n")
    chosen = ("--contenders", "floor,corelane-server", "--only", "hello")
    result = field(tmp_path, "--server", server, *chosen)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "bench.json").read_text())
    assert "no such luck" in record["contenders"]["corelane-server"]["missing"]
    assert list(record["cells"]["hello"]) == ["floor"]


@pytest.mark.parametrize(
    ("flag", "text"), [("--only", "hello,speed"), ("--contenders", "floor,iis")]
)
def test_an_unknown_name_is_refused(tmp_path: Path, flag: str, text: str) -> None:
    result = field(tmp_path, flag, text)
    assert result.returncode == 64
    assert len(result.stderr.splitlines()) == 1
    assert f"{text.split(',')[1]}: there are {text.split(',')[0]}" in result.stderr


def test_every_contender_says_what_it_is() -> None:
    assert list(CONTENDERS) == [name for name in ORDER if name in CONTENDERS]
    for contender in CONTENDERS.values():
        assert contender.settings
        assert contender.workloads <= set(PARTS)
        assert workloads.first_of(contender)


def test_memory_that_processes_share_counts_once(tmp_path: Path) -> None:
    with running.started(brooding(tmp_path), tmp_path, cpus=[CPU]) as process:
        assert len(process.pids) == 2
        assert 64 << 10 < process.resident_kib() < 2 * (64 << 10)


def test_a_worker_that_has_ended_keeps_its_cpu_time(tmp_path: Path) -> None:
    with running.started(brooding(tmp_path), tmp_path, cpus=[CPU]) as process:
        (worker,) = process.pids[1:]
        before = process.cpu_seconds()
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{worker}").exists(), "the worker is gone")
        assert process.cpu_seconds() >= before


def test_a_contender_is_stopped_between_its_turns(tmp_path: Path) -> None:
    contender = brooding(tmp_path)
    bench = Bench({contender.name: tmp_path}, tmp_path, (CPU, CPU), "dev", tmp_path)
    with Turns(bench, Seconds(), None) as turns:
        with turns.of(contender) as process:
            running.check(process, workloads.first_of(contender))
        eventually(lambda: {state(pid) for pid in process.pids} == {"T"}, "all are stopped")
        with turns.of(contender) as again:
            assert again is process
            running.check(again, workloads.first_of(contender))
    assert process.process.poll() is not None


def test_a_contender_that_has_its_cpu_alone_goes_ahead_of_others(tmp_path: Path) -> None:
    contender = brooding(tmp_path)
    bench = Bench({contender.name: tmp_path}, tmp_path, (CPU, CPU), "dev", tmp_path)
    for cpus, asked in ((None, True), ([CPU], False)):
        with bench.running(contender, cpus=cpus) as process:
            pid = process.process.pid
            # A session of its own is a group of its own for the scheduler (sched(7)).
            assert os.getsid(pid) == pid
            assert asked or not process.ahead
            group = Path(f"/proc/{pid}/autogroup")
            nice = group.read_text().split()[-1] if group.exists() else None
            assert (nice == "-20") == process.ahead


def test_one_whose_clocks_stood_still_is_not_measured_before_they_are_right(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text(LATE)
    contender = some_contender(argv=lambda _, start: [sys.executable, str(file), str(start.port)])
    bench = Bench({contender.name: tmp_path}, tmp_path, (CPU, CPU), "dev", tmp_path)
    with Turns(bench, Seconds(), None) as turns:
        for _ in range(2):
            with turns.of(contender) as process:
                running.check(process, workloads.first_of(contender))


def test_what_is_compiled_meanwhile_is_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "compiling.py"
    file.write_text(COMPILING)
    contender = some_contender(
        argv=lambda _, start: [sys.executable, str(file), str(start.port)], compilers=("compiler",)
    )
    hello = workloads.first_of(contender)
    with running.started(contender, tmp_path, cpus=[CPU]) as process:

        def measure() -> tuple[float, dict]:
            before = process.cpu_seconds()
            running.check(process, hello)
            samples.append({"number": len(samples)})
            return process.cpu_seconds() - before, samples[-1]

        samples: list[dict] = []
        # It was asked once before.
        _, result = warm.measured(process, contender, 60.0, measure)
        assert len(samples) == 3
        assert result["number"] == 2 and result["compiling"] <= warm.SHARE
        # Who compiles nothing is measured once, and so is whoever has no time left.
        assert warm.measured(process, some_contender(), 60.0, measure)[1] == {"number": 3}
        assert warm.measured(process, contender, 0.0, measure)[1]["number"] == 4


def state(pid: int) -> str:
    """What it does (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_budget_counts_what_a_contender_takes() -> None:
    plan = Plan(parts=("hello", "idle"), rounds=2)
    one, warm = some_contender(), some_contender(warm_up=2.5, warm_up_first=6.0)
    found = budget.of(plan, [one])
    assert set(found) == {"hello", "idle", "starts"}
    assert budget.of(plan, [one, one])["hello"] == 2 * found["hello"]
    assert budget.of(plan, [warm])["hello"] == pytest.approx(
        found["hello"] + 2 * (2.5 - one.warm_up)
    )
    assert budget.of(plan, [warm])["starts"] >= 6
    assert budget.of(replace(plan, parts=("projects",)), [one])["projects"] == 0


def test_a_command_line_has_a_database_only_with_its_token(tmp_path: Path) -> None:
    plain = Start("127.0.0.1:8100", 1, tmp_path, tmp_path)
    assert plain.arguments() == [
        *("--listen", "127.0.0.1:8100", "--threads", "1", "--static", str(tmp_path))
    ]
    token = tmp_path / "token"
    token.write_text("secret")
    kept = replace(plain, database="postgres://a:b@127.0.0.1:5432/a", token_file=token)
    assert kept.arguments()[6:] == ["--database", kept.database, "--token", "secret"]


def test_files_with_several_names_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 1000)
    (tmp_path / "same").hardlink_to(tmp_path / "one")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "two").write_bytes(b"x" * 10)
    assert size_of([tmp_path, tmp_path / "one"]) == 1010
