"""`bench field`: contenders are measured in interleaved rounds, and what is wrong is told."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from loadtests.bench.experiment.record import Record
from loadtests.bench.field import mixes, scaling, stand
from loadtests.bench.field.contender import Contender, first_of
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.field.experiment import Field
from stack import eventually
from support.scenarios import bench

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

WRONG_FILE = FICKLE.replace("Handler.answered < 50 or Handler.answered % 3", "True").replace(
    'self.send_response(200 if self.path == "/hello" else 404)',
    'body = body if self.path == "/hello" else b"x" * {length}\n        self.send_response(200)',
)
"""Its files have the right length and nothing else."""

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
    return bench("field", out, "--quick", "--profile", "dev", *arguments)


def contender(folder: Path, text: str, **changes: object) -> Contender:
    """A server in Python, given its port."""
    file = folder / "server.py"
    file.write_text(text)
    return replace(
        CONTENDERS["floor"],
        argv=lambda _, start: [sys.executable, str(file), start.address.rpartition(":")[2]],
        **changes,
    )


@pytest.fixture
def alone(tmp_path: Path) -> partial:
    """Starts a contender on one CPU."""
    return partial(stand.started, program=tmp_path, cpus=[CPU])


def test_a_run_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    chosen = ("floor", "corelane-server")
    parts = ("hello", "div", "file-10k", "mixed", "cores", "idle", "c10k")
    only = ",".join((*chosen, *parts))
    result = field(tmp_path, "--server", binary, "--connections", "200", "--only", only)
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-field.json")
    assert record.labels("server") == list(chosen)
    measured = {(row["server"], row["part"]) for row in record.rows}
    tasks = {(task["server"], task["part"]) for task in Field().tasks(None)}
    assert measured == {task for task in tasks if task[0] in chosen and task[1] in parts}
    assert not [row for row in record.rows if row.get("error") or row.get("wrong")]
    for row in record.select(part="hello", loop="open"):
        latency = row["latency_ms"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
    for row in record.select(part="c10k"):
        assert (row["requests"], row["failed"]) == (260, 0)
    mixed = record.select(part="mixed", server="corelane-server")
    assert {row["of"] for row in mixed} == set(mixes.MIXES)
    for row in mixed:
        if row["loop"] == "open":
            assert row["expensive_ms"]["p50"] > row["cheap_ms"]["p50"]
        elif row["loop"] == "starving":
            assert row["share"] > 0 and row["cheap_per_second"] > 0
            assert row["offered"] > 1.2, "what is due counts, whether it was sent or not"
    assert (tmp_path / "bench-field.md").read_text() == Field().page(record).markdown


def test_a_wrong_reply_fails_the_run_and_a_missing_route_is_told(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text(FICKLE.format(python=sys.executable))
    server.chmod(0o755)
    result = field(tmp_path, "--server", server, "--only", "corelane-server,hello,div")
    assert result.returncode == 1, result.stderr
    record = Record.read(tmp_path / "bench-field.json")
    assert record.total("wrong") > 0
    (row,) = record.select(part="div")
    assert "/div/4 is answered 404" in row["error"]


def test_one_that_does_not_start_is_left_out(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text("#!/bin/sh\necho no such luck >&2; exit 3\n")
    server.chmod(0o755)
    result = field(tmp_path, "--server", server, "--only", "floor,corelane-server,hello,div")
    assert result.returncode == 0, result.stderr
    record = Record.read(tmp_path / "bench-field.json")
    assert "no such luck" in record.missing["corelane-server"]
    assert record.labels("server") == ["floor"]
    assert "Not measured: corelane-server: " in result.stdout


def test_an_unknown_name_is_rejected_before_anything_is_built(tmp_path: Path) -> None:
    result = field(tmp_path, "--only", "floor,iis")
    assert result.returncode == 1
    assert "--only iis: allowed are " in result.stderr


def test_memory_that_processes_share_counts_once(tmp_path: Path, alone: partial) -> None:
    with alone(contender(tmp_path, BROODING)) as process:
        assert len(process.pids) == 2
        assert 64 << 10 < process.resident_kib() < 2 * (64 << 10)


def test_a_worker_that_has_ended_keeps_its_cpu_time(tmp_path: Path, alone: partial) -> None:
    with alone(contender(tmp_path, BROODING)) as process:
        (worker,) = process.pids[1:]
        before = process.cpu_seconds()
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{worker}").exists(), "the worker is gone")
        assert process.cpu_seconds() >= before


def test_a_contender_is_stopped_between_its_turns(tmp_path: Path, alone: partial) -> None:
    one = contender(tmp_path, BROODING)
    with stand.Turns(alone) as taken:
        with taken.of(one) as process:
            stand.check(process, first_of(one))
        eventually(lambda: {state(pid) for pid in process.pids} == {"T"}, "all are stopped")
        with taken.of(one) as again:
            assert again is process
            stand.check(again, first_of(one))
    assert process.process.poll() is not None


def state(pid: int) -> str:
    """What it does (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("ahead", [False, True])
def test_a_contender_that_has_its_cpu_alone_goes_ahead_of_others(
    tmp_path: Path, alone: partial, ahead: bool
) -> None:
    with alone(contender(tmp_path, BROODING), ahead=ahead) as process:
        pid = process.process.pid
        # A session of its own is a group of its own for the scheduler (sched(7)).
        assert os.getsid(pid) == pid
        assert ahead or not process.ahead
        group = Path(f"/proc/{pid}/autogroup")
        nice = group.read_text().split()[-1] if group.exists() else None
        assert (nice == "-20") == process.ahead


def test_one_whose_clocks_stood_still_is_not_measured_before_they_are_right(
    tmp_path: Path, alone: partial
) -> None:
    one = contender(tmp_path, LATE)
    with stand.Turns(alone) as taken:
        for _ in range(2):
            with taken.of(one) as process:
                stand.check(process, first_of(one))


def test_what_is_compiled_meanwhile_is_measured_again(tmp_path: Path, alone: partial) -> None:
    one = contender(tmp_path, COMPILING, compilers=("compiler",))
    hello = first_of(one)
    with alone(one) as process:

        def measure() -> dict:
            stand.check(process, hello)
            samples.append({"number": len(samples)})
            return samples[-1]

        samples: list[dict] = []
        # It was asked once before.
        found = stand.settled(process, 60.0, measure)
        assert len(samples) == 3
        assert found["number"] == 2 and found["compiling"] <= stand.SHARE
        assert stand.settled(process, 0.0, measure)["number"] == 3
        # Who compiles nothing is measured once.
        process.contender = replace(one, compilers=())
        assert stand.settled(process, 60.0, measure) == {"number": 4}


def test_a_handshake_that_finds_a_full_queue_is_counted() -> None:
    before = scaling.dropped()
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        eventually(lambda: scaling.dropped() > before, "one was dropped")


def test_under_ab_what_is_not_the_file_is_no_result(tmp_path: Path) -> None:
    """ab compares lengths only."""
    server = tmp_path / "server"
    length = len(scaling.PAGE.body)
    server.write_text(WRONG_FILE.format(python=sys.executable, length=length))
    server.chmod(0o755)
    chosen = ("--only", "corelane-server,c10k", "--connections", "20")
    field(tmp_path, "--server", server, *chosen)
    (row,) = Record.read(tmp_path / "bench-field.json").rows
    assert "/static/index.html is answered 200 b'xxx" in row["error"]
