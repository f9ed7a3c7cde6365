"""`bench field`: 10,000 connections at once, here fewer, at the floor."""

import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.bench.field import c10k
from loadtests.bench.field.bench import Bench, Plan
from loadtests.bench.field.contender import Contender, Start
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.field.workloads import STATIC
from support import eventually
from support.field import cpus

pytestmark = pytest.mark.nightly

PLAN = Plan(parts=("c10k",), quick=True, rounds=1, profile="dev")

WRONG = """\
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"Hello, World!" if self.path == "/hello" else b"x" * {length}
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

host, port = sys.argv[1].split(":")
ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c10k, "REQUESTS_OF_AB", 260)
    monkeypatch.setattr(c10k, "AT_ONCE", 200)


def bench(folder: Path, contender: Contender, program: Path) -> Bench:
    first, *_, last = [*cpus(), *cpus()]
    return Bench({contender.name: program}, Path("unused"), (first, last), "dev", folder)


@pytest.mark.usefixtures("few")
def test_every_connection_counts(tmp_path: Path) -> None:
    floor = CONTENDERS["floor"]
    record = c10k.measure(bench(tmp_path, floor, floor.build("dev")), PLAN)
    (sample,) = record["c10k"]["floor"]
    assert (sample["round"], sample["requests"], sample["failed"]) == (1, 260, 0)
    assert sample["dropped"] >= 0
    percents, times = zip(*sample["percentiles"], strict=True)
    assert percents[0] == 50 and percents[-2:] == (99.9, 100)
    assert list(times) == sorted(times)
    assert record["published"]["c10k"]["Apache, published"]["failed"] == 151


def test_a_handshake_that_finds_a_full_queue_is_counted() -> None:
    before = c10k.dropped()
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        eventually(lambda: c10k.dropped() > before, "one was dropped")


@pytest.mark.usefixtures("few")
def test_what_is_not_the_file_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ab would be content: all replies have the same length."""
    file = tmp_path / "wrong.py"
    file.write_text(WRONG.format(length=(STATIC / "index.html").stat().st_size))

    def argv(program: Path, start: Start) -> list[str]:
        return [sys.executable, str(program), start.address]

    wrong = replace(CONTENDERS["floor"], argv=argv)
    found = bench(tmp_path, wrong, file)
    monkeypatch.setattr(Bench, "contenders", lambda *_: [wrong])
    assert c10k.measure(found, PLAN)["c10k"] == {"floor": []}
    assert "is not the file" in "".join(capsys.readouterr())
