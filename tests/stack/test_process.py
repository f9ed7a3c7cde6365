"""Starting and stopping processes, error messages and port allocation."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from stack import REPOSITORY, eventually
from stack.ports import BLOCK, VARIABLE, free_ports
from stack.process import Process, end, running, wait_for
from tools.errors import ToolError


def shell(name: str, script: str, folder: Path) -> Process:
    """A shell process, which is ready once it has created a file with its name."""
    mark = folder / f"{name}.ready"
    return Process(name, ["sh", "-c", script], folder, mark.exists)


def sleeper(name: str, folder: Path) -> Process:
    """Runs until terminated."""
    return shell(name, f"touch {name}.ready; exec sleep 60", folder)


def test_a_process_that_is_stopped_ends_like_the_others(tmp_path: Path) -> None:
    one = sleeper("one", tmp_path)
    one.start()
    one.signal(signal.SIGSTOP)
    end([one])
    assert one.wait() == -signal.SIGTERM


def test_every_process_that_does_not_come_up_is_named_with_its_words(tmp_path: Path) -> None:
    broken = [
        shell(name, f"echo {name} has no port; exit 3", tmp_path) for name in ("two", "three")
    ]
    one = sleeper("one", tmp_path)
    everything = [one, *broken]
    for each in everything:
        each.start(wait=False)
    try:
        for each in broken:
            eventually(lambda each=each: not each.running, f"the end of {each.name}")
        with pytest.raises(ToolError) as error:
            wait_for(everything)
    finally:
        end(everything)
    first, *rest = str(error.value).splitlines()
    assert first == "two, three: ended right after the start"
    assert {"    two has no port", "    three has no port"} <= set(rest)


def test_what_a_process_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    with running("one", ["sh", "-c", "sleep 60 & echo $!"], tmp_path, ends=True) as one:
        child = int(eventually(one.log.read_text, "the pid"))
    gone = Path(f"/proc/{child}/stat")
    eventually(lambda: not gone.exists() or ") Z " in gone.read_text(), "its end")


def test_rows_are_in_the_range_and_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    # A private range, because probing a port briefly uses it.
    monkeypatch.setenv(VARIABLE, "30000-30999")
    rows = [range(first, first + 3) for first in (free_ports(3) for _ in range(50))]
    given = [port for row in rows for port in row]
    assert len(set(given)) == 150
    assert min(given) >= 30000
    assert max(given) <= 30999


DRAW = """
import sys

sys.path[:0] = ["", "hack"]
from stack.ports import free_ports

print(free_ports(3), flush=True)
sys.stdin.read()
"""


def test_no_process_draws_from_a_block_of_another() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    argv = [sys.executable, "-c", DRAW]
    with ExitStack() as running:
        # Leaving the context closes stdin, which ends the process.
        others = [
            running.enter_context(subprocess.Popen(argv, cwd=REPOSITORY, **pipes)) for _ in range(3)
        ]
        drawn = [free_ports(), *(int(other.stdout.readline()) for other in others)]
    assert len({port // BLOCK for port in drawn}) == len(drawn)
