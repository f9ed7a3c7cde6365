"""The parts of a stage: how they are started, ended and named when they fail."""

import os
import signal
from pathlib import Path

import pytest
import yaml

from dashboards.live import assemble, parts
from dashboards.live.options import Options
from dashboards.live.parts import Part
from dashboards.live.replicas import with_flags
from support import REPOSITORY, eventually
from tools.errors import ToolError

pytestmark = pytest.mark.nightly


def part(name: str, script: str, folder: Path) -> Part:
    """A shell that is ready when it has made a file of its name."""
    mark = folder / f"{name}.ready"
    return Part(name, ["sh", "-c", script], folder, mark.exists, dict(os.environ))


def sleeper(name: str, folder: Path) -> Part:
    """One that goes on until it is told to end."""
    return part(name, f"touch {name}.ready; exec sleep 60", folder)


def test_a_part_can_be_killed_and_started_again(tmp_path: Path) -> None:
    one = sleeper("one", tmp_path)
    one.start()
    first = one.pid
    one.kill()
    assert (one.running, one.failed, one.pid) == (False, False, 0)
    one.start()
    assert one.pid not in (0, first)
    parts.end([one])
    assert not one.running


def test_a_part_that_is_stopped_ends_like_the_others(tmp_path: Path) -> None:
    one = sleeper("one", tmp_path)
    one.start()
    one.signal(signal.SIGSTOP)
    parts.end([one])
    assert one.wait() == -signal.SIGTERM


def test_every_part_that_does_not_come_up_is_named_with_its_words(tmp_path: Path) -> None:
    broken = [part(name, f"echo {name} has no port; exit 3", tmp_path) for name in ("two", "three")]
    one = sleeper("one", tmp_path)
    everything = [one, *broken]
    for each in everything:
        each.start(wait=False)
    try:
        for each in broken:
            eventually(lambda each=each: not each.running, f"the end of {each.name}")
        with pytest.raises(ToolError) as error:
            parts.wait_for(everything)
    finally:
        parts.end(everything)
    first, *rest = str(error.value).splitlines()
    assert first == "two, three: ended right after the start"
    assert {"    two has no port", "    three has no port"} <= set(rest)


def test_an_end_that_nobody_asked_for_is_a_failure(tmp_path: Path) -> None:
    one = part("one", "touch one.ready", tmp_path)
    one.start(wait=False)
    eventually(lambda: one.failed, "the end")
    load = part("load", "touch load.ready", tmp_path)
    load.ends = True
    load.start(wait=False)
    eventually(lambda: not load.running, "the end of the load")
    assert not load.failed


def test_a_flag_that_is_given_again_takes_the_place_of_the_first() -> None:
    argv = ["server", "--lanes", "1", "--pin", "on"]
    assert with_flags(argv, ["--pin", "off", "--backlog", 9]) == [
        *("server", "--lanes", "1", "--pin", "off", "--backlog", "9")
    ]
    assert argv[-1] == "on"


def test_rules_are_evaluated_more_often_and_are_otherwise_the_same(tmp_path: Path) -> None:
    shipped = sorted((REPOSITORY / "dashboards/rules").glob("*.rules.yaml"))
    (pattern,) = assemble.paced(tmp_path / "rules", Options("stage", 1).rules, 0.5)
    copies = sorted(pattern.parent.glob(pattern.name))
    assert [copy.name for copy in copies] == [file.name for file in shipped]
    groups = 0
    for before, after in zip(shipped, copies, strict=True):
        ours, theirs = (yaml.safe_load(file.read_text())["groups"] for file in (after, before))
        groups += len(ours)
        for group, original in zip(ours, theirs, strict=True):
            if "interval" in original:
                original["interval"] = "500ms"
            assert group == original
    assert groups
