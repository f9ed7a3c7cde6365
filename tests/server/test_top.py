"""`corelane top`: script output, and an 80-column screen."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import PATIENCE
from stack.http import ask
from stack.replica import Server

HEAD = "REPLICA LANE BUSY CPU SLOW REQ/S P99 RUNNING QUEUED CONNS PARKED WORK STATE"


def address(server: Server) -> str:
    return server.admin.removeprefix("http://")


def test_the_table_has_a_line_for_each_lane(command: Path, start: Callable[..., Server]) -> None:
    servers = [start("--lanes", "2"), start("--lanes", "1")]
    admins = [flag for server in servers for flag in ("--admin", address(server))]
    argv = [command, "top", "--once", "--interval", "2s", *admins, "--admin", "127.0.0.1:1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as shown:
        while shown.poll() is None:
            ask(servers[1].url, "/hello")
        lines = [line.split() for line in shown.stdout.read().splitlines()]
    assert (shown.returncode, " ".join(lines[0])) == (0, HEAD)
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:4]]
    lanes = [(address(servers[0]), "0"), (address(servers[0]), "1"), (address(servers[1]), "0")]
    assert [(row["REPLICA"], row["LANE"]) for row in rows] == lanes
    assert [row["P99"] for row in rows[:2]] == ["-", "-"]
    assert rows[2]["P99"].startswith(("<", ">"))
    assert float(rows[2]["REQ/S"]) > 0
    assert lines[4][0] == "127.0.0.1:1:"


def test_it_fails_where_no_replica_replies(command: Path, tmp_path: Path) -> None:
    argv = [command, "top", "--once", "--interval", "100ms", "--admin", "127.0.0.1:1"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 1
    none = subprocess.run(
        [command, "top", "--once"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (none.returncode, none.stdout) == (1, "")
    assert "nothing is up in .corelane/default or .run/default" in none.stderr


def test_by_default_it_shows_the_local_platform(
    command: Path, start: Callable[..., Server], tmp_path: Path
) -> None:
    folder = tmp_path / ".run" / "default"
    folder.mkdir(parents=True)
    replica = {"name": "shop-0", "admin_port": int(start("--lanes", "1").admin.rpartition(":")[2])}
    (folder / "topology.json").write_text(json.dumps({"replicas": [replica]}))
    argv = [command, "top", "--once", "--interval", "100ms"]
    shown = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[1].split()[0] == "shop-0"


SEQUENCE = re.compile(r"\x1b\[(?P<values>[?0-9;]*)(?P<final>[A-Za-z])")


class Terminal:
    """A minimal 80x24 terminal: positions and characters."""

    def __init__(self, argv: list[str | Path]) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self._cells: dict[tuple[int, int], str] = {}
        self._row = self._column = 0
        self._rest = ""

    def screen(self) -> str:
        return "\n".join(
            "".join(self._cells.get((row, column), " ") for column in range(80)).rstrip()
            for row in range(24)
        )

    def shows(self, text: str) -> None:
        """Waits until the text is visible."""
        # The program writes on every reading, so a timeout per read would never expire.
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen():
            left = max(0.0, deadline - time.monotonic())
            assert select.select([self.ours], [], [], left)[0] and left, (text, self.screen())
            self._take(self._rest + os.read(self.ours, 65536).decode(errors="replace"))

    def _take(self, written: str) -> None:
        at = 0
        while at < len(written):
            found = SEQUENCE.match(written, at)
            if written[at] == "\x1b" and not found:
                break
            if not found:
                self._cells[self._row, self._column] = written[at]
                self._column += 1
            elif found["final"] == "H":
                place = (int(value) - 1 for value in (found["values"] or "1;1").split(";"))
                self._row, self._column = place
            elif found["final"] in "hlJ" and found["values"] in ("?1049h", "?1049l", "2"):
                self._cells.clear()
            at = found.end() if found else at + 1
        # An incomplete escape sequence.
        self._rest = written[at:]

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())


@pytest.fixture
def terminal(command: Path, start: Callable[..., Server]) -> Iterator[Terminal]:
    server = start("--lanes", "2")
    opened = Terminal([command, "top", "--interval", "100ms", "--admin", address(server)])
    yield opened
    opened.process.kill()
    opened.process.wait()
    os.close(opened.ours)


def test_keys_pause_filter_and_quit(terminal: Terminal) -> None:
    terminal.shows("live  1 of 1 replicas, 2 lanes, sorted by replica")
    terminal.shows("REPLICA")
    terminal.shows("q quit")
    terminal.press("ps")
    terminal.shows("PAUSED  1 of 1 replicas, 2 lanes, sorted by busy")
    terminal.press("/shop")
    terminal.shows("filter: shop_")
    terminal.press("\r")
    terminal.shows("only shop, Esc: all")
    terminal.press("q")
    assert terminal.process.wait(timeout=PATIENCE) == 0
