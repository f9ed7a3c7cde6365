"""The soak on a real server, for seconds; and what it must find."""

import subprocess
from pathlib import Path

import pytest

from loadtests.bench.experiment.record import Record
from loadtests.bench.soak import clients
from loadtests.bench.soak.experiment import broken
from support.scenarios import bench

# The soak is a benchmark of minutes; here it runs for seconds, in which the memory of a busy machine is still growing.
pytestmark = pytest.mark.nightly


def run(out: Path, program: Path, seconds: int = 5) -> subprocess.CompletedProcess[str]:
    return bench("soak", out, "--seconds", seconds, "--clients", "50", "--server", program)


def test_every_kind_of_client_comes_and_goes(binary: Path, tmp_path: Path) -> None:
    seconds = 5
    result = run(tmp_path, binary, seconds)
    if "memory grew" in result.stdout:
        # The warm-up may take longer than a third of so short a run.
        seconds = 20
        result = run(tmp_path, binary, seconds)
    assert result.returncode == 0, result.stdout + result.stderr
    (row,) = Record.read(tmp_path / "bench-soak.json").rows
    assert f"**Passed:** {seconds} s, " in result.stdout
    assert set(row["clients"]) == set(clients.KINDS)
    assert row["failures"] == {}
    assert max(sample["connections"] for sample in row["samples"]) > 5
    assert row["after"]["connections"] == row["after"]["in_flight"] == 0
    assert row["after"]["descriptors"] <= row["descriptors_at_start"]


def test_a_server_that_refuses_good_clients_fails(binary: Path, tmp_path: Path) -> None:
    narrow = tmp_path / "narrow"
    narrow.write_text(f'#!/bin/sh\nexec "{binary}" --limits.connections 3 "$@"\n')
    narrow.chmod(0o755)
    result = run(tmp_path, narrow)
    assert result.returncode == 1
    assert "good clients did not get every reply" in result.stdout


def sample(megabytes: float, **more: int) -> dict:
    counts = {"descriptors": 20, "connections": 0, "in_flight": 0, **more}
    return {"at": 0.0, "memory": int(megabytes * (1 << 20)), **counts}


def row(memory: list[float], **more: object) -> dict:
    sound = {"failures": {}, "descriptors_at_start": 20, "after": sample(20), "exit_code": 0}
    return {**sound, "samples": [sample(value) for value in memory], **more}


FLAT = [10.0] * 3 + [20.0] * 6


def test_growth_is_judged_after_the_first_third() -> None:
    assert broken(row(FLAT)) == []
    # Both a tenth and 2 MiB are allowed, once.
    assert broken(row([10.0] * 3 + [20.0] * 3 + [23.9] * 3)) == []
    grown = broken(row([10.0] * 3 + [20.0] * 3 + [24.1] * 3))
    assert grown == ["memory grew from 20.0 to 24.1 MiB"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"after": sample(20, descriptors=21)}, "21 descriptors are open at the end, 20 at"),
        ({"after": sample(20, connections=1)}, "1 connections are open without a client"),
        ({"after": sample(20, in_flight=2)}, "2 requests are in flight without a client"),
        ({"failures": {"http2: EOFError": 3}}, "3 good clients did not get every reply"),
        ({"exit_code": 1}, "the server ended with 1"),
        ({"exit_code": None}, "the server ended with None"),
    ],
)
def test_what_is_left_is_told(more: dict, reason: str) -> None:
    (found,) = broken(row(FLAT, **more))
    assert found.startswith(reason)
