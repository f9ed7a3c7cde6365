"""Version, revision and time in images."""

import os
import subprocess
from pathlib import Path

import pytest

from images import stamp
from tools.errors import ToolError

pytestmark = pytest.mark.fast

ROLES = ("AUTHOR", "COMMITTER")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    (tmp_path / "VERSION").write_text("1.2.3\n")
    person = {"NAME": "A", "EMAIL": "a@example.org", "DATE": "1700000000 +0200"}
    # Not the user's own settings, such as signed commits.
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    git |= {f"GIT_{who}_{key}": value for who in ROLES for key, value in person.items()}
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, env={**os.environ, **git}, check=True)
    return tmp_path


def test_version_revision_and_time_are_those_of_the_commit(clone: Path) -> None:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True, check=True
    )
    assert stamp.read(clone) == stamp.Stamp("1.2.3", head.stdout.strip(), 1_700_000_000)


@pytest.mark.parametrize("name", ["VERSION", "new"])
def test_a_change_that_is_not_committed_shows_in_the_revision(clone: Path, name: str) -> None:
    (clone / name).write_text("2.0.0\n")
    assert stamp.read(clone).revision.endswith("-dirty")


def test_source_date_epoch_sets_the_time(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "5")
    assert stamp.read(clone).created == 5
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "now")
    with pytest.raises(ToolError, match="SOURCE_DATE_EPOCH='now'"):
        stamp.read(clone)


def test_a_missing_repository_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("1.2.3\n")
    with pytest.raises(ToolError, match="not a git repository"):
        stamp.read(tmp_path)
