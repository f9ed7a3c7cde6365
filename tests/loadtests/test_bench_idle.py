"""`bench-idle`: connections wait, are counted one by one, and what it measures is written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.idle import picture, report, run
from loadtests.bench.idle.arms import CLIMBING
from loadtests.ladder import network
from support import REPOSITORY

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces"),
]


def bench_idle(out: Path, server: Path, *more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "idle", "--tiny", "--profile", "dev", *more]
    argv += ["--out", str(out), "--server", str(server)]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_every_connection_is_opened_parked_woken_and_drained(binary: Path, tmp_path: Path) -> None:
    outside = network.network()
    result = bench_idle(tmp_path, binary)
    record = json.loads((tmp_path / "bench-idle.json").read_text())
    assert result.returncode == 0, result.stderr
    count = run.TINY["connections"]
    assert tuple(record["memory"]) == run.TINY["arms"]
    for name, (sample,) in record["memory"].items():
        assert sample["lost"] == 0
        assert sample["parked"] == (count if "parked" in name else 0)
        assert sample["resident_kib"] > 0
    assert list(record["ladder"]) == [arm.name for arm in CLIMBING]
    for arm in CLIMBING:
        assert len(record["ladder"][arm.name]) == run.TINY["climbs"]
        for climb in record["ladder"][arm.name]:
            top = climb["rungs"][-1]["connections"]
            live = [rung["live"] for rung in climb["rungs"]]
            assert [rung["lost"] for rung in climb["rungs"]] == [0, 0]
            assert all(one["requests"] > 0 == one["wrong"] for one in live)
            for woken in climb["woken"]:
                assert (woken["asked"], woken["answered"], woken["faults"]) == (top, top, {})
                assert woken["wakes"] >= (top if arm.parks else 0)
            assert climb["drain"]["exit_codes"] == [0]
            assert (climb["drain"]["connections"], climb["drain"]["still_open"]) == (top, 0)
    text = (tmp_path / "bench-idle.md").read_text()
    assert text == report.markdown(record)
    assert result.stdout == text + "\n"
    assert (tmp_path / "bench-idle.svg").read_text() == picture.draw(record)
    assert network.network() == outside


REFUSING = """\
#!{python}
# The same server, with room for fewer than come.
import os, sys
arguments = sys.argv[1:]
if "--limits.connections" in arguments:
    arguments[arguments.index("--limits.connections") + 1] = "20"
os.execv("{server}", ["{server}", *arguments])
"""


def test_a_connection_that_is_refused_ends_the_run(binary: Path, tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text(REFUSING.format(python=sys.executable, server=binary))
    server.chmod(0o755)
    result = bench_idle(tmp_path, server, "--only", "ladder")
    assert result.returncode == 1
    assert "connections failed: {'" in result.stderr
    assert not (tmp_path / "bench-idle.json").exists()


def test_a_server_without_parking_is_refused_with_words(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text("#!/bin/sh\nexit 64\n")
    server.chmod(0o755)
    result = bench_idle(tmp_path, server)
    assert result.returncode == 1
    assert "does not know --park-after" in result.stderr
