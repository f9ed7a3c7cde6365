"""How processes are started and ended, and named when they fail."""

import signal
from pathlib import Path

import pytest

from stack import eventually
from stack.process import Process, end, running, wait_for
from tools.errors import ToolError


def shell(name: str, script: str, folder: Path) -> Process:
    """A shell that is ready when it has made a file of its name."""
    mark = folder / f"{name}.ready"
    return Process(name, ["sh", "-c", script], folder, mark.exists)


def sleeper(name: str, folder: Path) -> Process:
    """One that goes on until it is told to end."""
    return shell(name, f"touch {name}.ready; exec sleep 60", folder)


def test_a_process_can_be_killed_and_started_again(tmp_path: Path) -> None:
    one = sleeper("one", tmp_path)
    one.start()
    first = one.pid
    one.kill()
    assert (one.running, one.failed, one.pid) == (False, False, 0)
    one.start()
    assert one.pid not in (0, first)
    end([one])
    assert not one.running


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


def test_an_end_that_nobody_asked_for_is_a_failure(tmp_path: Path) -> None:
    one = shell("one", "touch one.ready", tmp_path)
    one.start(wait=False)
    eventually(lambda: one.failed, "the end")
    load = Process("load", ["true"], tmp_path, ends=True)
    load.start(wait=False)
    eventually(lambda: not load.running, "the end of the load")
    assert not load.failed


def test_what_a_process_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    with running("one", ["sh", "-c", "sleep 60 & echo $!"], tmp_path, ends=True) as one:
        child = int(eventually(one.log.read_text, "the pid"))
    gone = Path(f"/proc/{child}/stat")
    eventually(lambda: not gone.exists() or ") Z " in gone.read_text(), "its end")
