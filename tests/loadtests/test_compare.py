"""`compare` on real servers: a planted slowdown is found, what was measured is kept, nothing is left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests import record
from loadtests.compare import trees, verdict
from support import REPOSITORY

pytestmark = pytest.mark.nightly

SLOW = """\
#!{python}
import os, sys
flags = ["info,corelane::request=debug" if one == "warn" else one for one in sys.argv[1:]]
os.execv("{server}", ["{server}", *flags])
"""
"""The same server with a line of log for each request."""


def compare(base: str, out: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests", "compare", base, "--quick", "--profile", "dev"]
    argv += ["--out", out, *arguments]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def worktrees() -> str:
    argv = ["git", "worktree", "list"]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


def test_more_work_for_each_request_is_found(binary: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text(SLOW.format(python=sys.executable, server=binary))
    slow.chmod(0o755)
    chosen = ["--only", "cpu-direct", "--rounds", "5", "--server", slow, "--base-server", binary]
    result = compare("HEAD", tmp_path, *chosen)
    assert result.returncode == 99, result.stderr
    assert "**Head is slower than base, after 5 rounds: cpu-direct costs " in result.stdout
    (failed,) = record.read(tmp_path / "compare-latest").failed_thresholds
    assert failed.startswith("cpu-direct costs ")
    rounds = json.loads((tmp_path / "compare-latest" / "rounds.json").read_text())["rounds"]
    assert [len(one) for one in rounds] == [8] * 5
    assert {one["build"] for one in rounds[0][:2]} == {"base", "head"}


def test_one_round_is_kept_and_decides_nothing(binary: Path, tmp_path: Path) -> None:
    before = worktrees()
    servers = ["--server", binary, "--base-server", binary]
    chosen = ["--rounds", "1", "--only", "cpu-direct,p99-gateway"]
    result = compare("HEAD", tmp_path, *chosen, *servers)
    assert result.returncode == 1, result.stderr
    assert "1 cannot show that it is slower: that takes 6" in result.stderr
    assert "server and gateway are the same in both" in result.stdout
    run = record.read(tmp_path / "compare-latest")
    assert (run.exit_code, run.passed, run.failed_thresholds) == (1, False, [])
    assert run.settings["verdict"] == verdict.UNDECIDED
    assert [part.name for part in run.parts] == [
        "base, direct, closed loop",
        "head, direct, closed loop",
        "base, gateway, open loop",
        "head, gateway, open loop",
    ]
    for part in run.parts:
        assert part.requests > part.failed == 0
        assert part.requests == part.routes["all"].requests
    figures = run.part("head, gateway, open loop").figures
    assert list(figures) == ["p99-gateway", "p99-gateway × base"]
    assert figures["p99-gateway"].value > 0
    assert worktrees() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-branch"], "no-such-branch: no such commit here"),
        (["HEAD", "--margin", "speed=3"], "speed=3: give KIND=PERCENT; kinds are cpu, throughput"),
        (["HEAD", "--rounds", "10,5"], "10,5: each number has to be above the one before"),
        (["HEAD", "--only", "cpu"], "cpu: there are cpu-direct, throughput-direct"),
        (["HEAD", "--server", "/no/such/server"], "/no/such/server: no such program"),
    ],
)
def test_bad_usage_is_told_before_anything_is_built(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    result = compare(arguments[0], tmp_path, *arguments[1:])
    assert result.returncode == os.EX_USAGE
    assert words in result.stderr
    assert not list(tmp_path.iterdir())


def test_equal_sources_have_the_same_content_in_both_trees() -> None:
    with trees.base(trees.commit("HEAD")) as base:
        assert (base.folder / "services" / "Cargo.lock").is_file()
        head = trees.head()
        clean = head.content("charts")
        assert clean in (None, base.content("charts"))
        (base.folder / "charts" / "new").touch()
        assert base.content("charts") is None
        assert base.content("services") is not None
    assert not base.folder.exists()
