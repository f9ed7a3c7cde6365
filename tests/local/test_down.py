"""`down` leaves no process of its instance, and touches no other."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from local import supervisor
from support import eventually
from support.platforms import Platform


def test_down_leaves_no_process(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(2)
    platform.up()
    assert len(platform.pids()) == 5
    result = platform.command("down")
    assert result.returncode == 0
    assert platform.pids() == []
    assert platform.command("status").returncode == 1
    again = platform.command("down")
    assert again.returncode == 0
    assert "Nothing is up" in again.stdout


def test_down_ends_what_a_killed_supervisord_left(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(1)
    platform.up()
    os.kill(supervisor.pid(platform.run), signal.SIGKILL)
    eventually(lambda: supervisor.pid(platform.run) is None, "the end of supervisord")
    refused = platform.command("up")
    assert refused.returncode == 1
    assert "make down" in refused.stderr
    assert len(platform.pids()) == 3
    assert "make down" in platform.command("status").stdout
    # The pid that supervisord left may belong to somebody else by now.
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            (platform.run / "supervisord.pid").write_text(str(stranger.pid))
            result = platform.command("down")
            assert stranger.poll() is None
        finally:
            stranger.kill()
    assert result.returncode == 0
    assert "killing" not in result.stderr
    assert platform.pids() == []


def test_down_needs_no_run_folder(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(1)
    platform.up()
    shutil.rmtree(platform.run)
    result = platform.command("down")
    assert result.returncode == 0, result.stderr
    assert "Corelane is down." in result.stdout
    assert platform.pids() == []


def test_a_start_that_is_terminated_leaves_nothing(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(1)
    for _ in range(5):
        with platform.begin("up") as process:
            # It waits for supervisord, to which a process runs after a second (`startsecs`).
            eventually(platform.pids)
            process.send_signal(signal.SIGTERM)
            process.communicate()
        if process.returncode != 0:
            break
        # The start had ended before the signal came: once more.
        platform.command("down")
    assert process.returncode == 128 + signal.SIGTERM
    assert platform.pids() == []


def test_a_start_that_fails_shows_why_and_leaves_nothing(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(1)
    result = platform.command("up", CORELANE_LIMITS_HEADERS="many")
    assert result.returncode == 1
    assert "server-0 exited right after the start" in result.stderr
    assert "CORELANE_LIMITS_HEADERS" in result.stderr
    assert platform.pids() == []


def test_a_variable_that_the_server_does_not_know_is_left_out(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(1)
    result = platform.command("up", CORELANE_NO_SUCH_KEY="1", CORELANE_LOG_LEVEL="debug")
    assert result.returncode == 0, result.stderr
    assert "CORELANE_NO_SUCH_KEY" in result.stderr
    environ = Path(f"/proc/{platform.pid('server-0')}/environ").read_bytes().split(b"\0")
    assert b"CORELANE_LOG_LEVEL=debug" in environ
    assert b"CORELANE_NO_SUCH_KEY=1" not in environ
