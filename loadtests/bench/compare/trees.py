"""The two trees: the working tree, and the base's commit in a separate git worktree."""

import argparse
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local.settings import REPOSITORY
from tools import cache
from tools.errors import ToolError

PLACE = REPOSITORY / ".run" / "compare"


@dataclass(frozen=True)
class Tree:
    """A tree of files, and what it is a state of."""

    folder: Path
    commit: str
    """The commit that is checked out."""
    changed: bool = False
    """Files differ from that commit."""

    @property
    def title(self) -> str:
        """For people."""
        subject = _git("show", "--no-patch", "--format=%h %s", self.commit)
        return f"{subject}{', with local changes' * self.changed}"

    def content(self, folder: str) -> str | None:
        """What git calls a folder's content: equal names, equal files. None if that is not known."""
        if _git("-C", str(self.folder), "status", "--porcelain", "--", folder):
            return None
        return _git("-C", str(self.folder), "rev-parse", f"HEAD:{folder}")


def commit(reference: str) -> str:
    """The commit of a reference."""
    found = _run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    if found.returncode != 0:
        raise argparse.ArgumentTypeError(
            f"{reference}: no such commit here; give a branch, a tag or a commit that git has fetched"
        )
    return found.stdout.strip()


def head() -> Tree:
    """The working tree, with whatever is changed in it."""
    return Tree(REPOSITORY, commit("HEAD"), bool(_git("status", "--porcelain")))


@contextmanager
def base(of: str) -> Iterator[Tree]:
    """The tree of a commit, for as long as it is needed."""
    folder = PLACE / "base"
    # One at a time: the folder is always the same, so that cargo finds again what it has built.
    with cache.lock(f"compare-{cache.key(str(folder))}"):
        _remove(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _git("worktree", "add", "--quiet", "--detach", str(folder), of)
        try:
            yield Tree(folder, of)
        finally:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Also one that a killed run has left."""
    if folder.exists():
        _git("worktree", "remove", "--force", str(folder))
    _git("worktree", "prune")


def _git(*arguments: str) -> str:
    found = _run(*arguments)
    if found.returncode != 0:
        raise ToolError(f"git {' '.join(arguments)}: {found.stderr.strip()}")
    return found.stdout.strip()


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["git", *arguments]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
