"""`compare` on real servers: a planted slowdown is found, what was measured is kept, nothing is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.compare import builds
from loadtests.bench.experiment.record import Record
from stack import REPOSITORY
from support.scenarios import bench

pytestmark = pytest.mark.nightly

SLOW = """\
#!{python}
import os, sys
flags = ["info,corelane::request=debug" if one == "warn" else one for one in sys.argv[1:]]
os.execv("{server}", ["{server}", *flags])
"""
"""The same server with a line of log for each request."""


def compare(base: str, out: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return bench("compare", out, base, "--quick", "--profile", "dev", *arguments)


def worktrees() -> list[str]:
    argv = ["git", "worktree", "list"]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [line.split()[0] for line in result.stdout.splitlines()]


def test_more_work_for_each_request_is_found(binary: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text(SLOW.format(python=sys.executable, server=binary))
    slow.chmod(0o755)
    chosen = ["--only", "direct,closed", "--rounds", "6", "--server", slow]
    result = compare("HEAD", tmp_path, *chosen, "--base-server", binary)
    assert result.returncode == 99, result.stderr
    assert "**Head is slower than base, after 6 rounds: cpu-direct costs " in result.stdout
    record = Record.read(tmp_path / "bench-compare.json")
    slices = [row["slices"] for row in record.rows]
    assert [len(one) for one in slices] == [8] * 6
    assert {one["build"] for one in slices[0][:2]} == {"base", "head"}


def test_one_round_is_kept_and_decides_nothing(binary: Path, tmp_path: Path) -> None:
    before = worktrees()
    servers = ["--server", binary, "--base-server", binary]
    result = compare("HEAD", tmp_path, "--rounds", "1", *servers)
    assert result.returncode == 1, result.stderr
    assert "1 cannot show that it is slower: that takes 8" in result.stderr
    assert "Server and gateway are the same in both" in result.stdout
    assert "Head is undecided" in result.stdout
    record = Record.read(tmp_path / "bench-compare.json")
    places = {(row["path"], row["loop"]) for row in record.rows}
    assert places == {(path, loop) for path in ("direct", "gateway") for loop in ("closed", "open")}
    for row in record.rows:
        assert row["requests"] > row["wrong"] == 0
    assert worktrees() == before
    undecided = compare(
        "HEAD", tmp_path, "--rounds", "1", *servers, "--only", "direct,closed", "--allow-undecided"
    )
    assert undecided.returncode == 0, undecided.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-branch"], "no-such-branch: no such commit here"),
        (["HEAD", "--margin", "speed=3"], "speed=3: give KIND=PERCENT; kinds are cpu, throughput"),
        (["HEAD", "--server", "/no/such/server"], "/no/such/server: no such program"),
        (["HEAD", "--base-server", "/no/such/server"], "/no/such/server: no such program"),
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
    with builds.base(builds.commit("HEAD")) as base:
        assert (base.folder / "services" / "Cargo.lock").is_file()
        head = builds.head()
        clean = head.content("charts")
        assert clean in (None, base.content("charts"))
        (base.folder / "charts" / "new").touch()
        assert base.content("charts") is None
        assert base.content("services") is not None
    assert not base.folder.exists()
