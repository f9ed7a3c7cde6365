"""The compared trees (the working tree and another commit) and their builds."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.gateway import proxies
from stack import REPOSITORY
from tools import cache, command, progress, resolve
from tools.errors import ToolError

PLACE = REPOSITORY / ".run" / "compare"


@dataclass(frozen=True)
class Tree:
    folder: Path
    commit: str
    changed: bool = False

    @property
    def title(self) -> str:
        subject = _git("show", "--no-patch", "--format=%h %s", self.commit)
        return f"{subject}{', with local changes' * self.changed}"


def commit(reference: str) -> str:
    found = _run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    if found.returncode != 0:
        raise argparse.ArgumentTypeError(
            f"{reference}: no such commit here; give a branch, a tag or a commit that git has fetched"
        )
    return found.stdout.strip()


def head() -> Tree:
    return Tree(REPOSITORY, commit("HEAD"), bool(_git("status", "--porcelain")))


@contextmanager
def base(of: str) -> Iterator[Tree]:
    """Yields a commit's worktree, which is removed when the context exits."""
    folder = PLACE / "base"
    # Only one tree exists at a time, because all trees use the same folder, so that cargo can reuse
    # its builds.
    with cache.lock(f"compare-{cache.key(str(folder))}"):
        _remove(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _git("worktree", "add", "--quiet", "--detach", str(folder), of)
        try:
            yield Tree(folder, of)
        finally:
            _remove(folder)


def _remove(folder: Path) -> None:
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


SERVER = "corelane-server"


@dataclass(frozen=True)
class Build:
    name: str
    title: str
    server: Path
    envoy: Path | None
    """None if nothing is measured through the gateway."""
    gateway: dict | None
    """Envoy's configuration as rendered by the tree's chart with default values, with placeholders
    for a replica's ports.
    """


def same(base: Build, head: Build) -> bool:
    return base.server.read_bytes() == head.server.read_bytes() and (base.gateway, base.envoy) == (
        head.gateway,
        head.envoy,
    )


def build(
    name: str, tree: Tree, program: Path | None, profile: str, *, through_gateway: bool
) -> Build:
    """Builds a tree's programs, unless `program` is an existing build of its server."""
    found = program or _cargo(name, tree, profile)
    tools = _tools(tree) if through_gateway else {}
    return Build(
        name=name,
        title=tree.title + (f", with another server: {program.name}" if program else ""),
        server=_placed(name, found),
        envoy=tools.get("envoy"),
        gateway=_rendered(tree, tools) if through_gateway else None,
    )


def _placed(name: str, program: Path) -> Path:
    """A copy whose path is as long as the path of the other build. The path is on the stack above
    main and shifts everything below it, which can make a program faster or slower (Mytkowicz and
    others, ASPLOS 2009).
    """
    place = PLACE / "programs" / name / SERVER
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    shutil.copy2(program, place)
    return place


def _cargo(name: str, tree: Tree, profile: str) -> Path:
    """The target folder of base, with all dependencies, outlives its tree."""
    target = tree.folder / "services" / "target" if name == "head" else PLACE / "target"
    argv = ["cargo", "build", "--locked", "--profile", profile, "-p", SERVER]
    log = cache.log(f"compare-{name}")
    log.unlink(missing_ok=True)
    with progress.step(name, " ".join(argv), log):
        environment = {"CARGO_TARGET_DIR": str(target)}
        failure = f"the server of {name} does not build"
        command.run(argv, log, failure=failure, cwd=tree.folder / "services", env=environment)
    return target / ("debug" if profile == "dev" else profile) / SERVER


def _tools(tree: Tree) -> dict[str, Path]:
    """Tools that render and run the gateway; the tree names the version of Envoy."""
    tools = resolve.ensure(["helm", "supervisord"])
    if tree.folder == REPOSITORY:
        return tools | resolve.ensure(["envoy"])
    argv = [sys.executable, str(tree.folder / "hack" / "tools"), "path", "envoy"]
    found = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        raise ToolError("the Envoy that base names cannot be obtained; it says why above")
    return tools | {"envoy": Path(found.stdout.strip())}


def _rendered(tree: Tree, tools: dict[str, Path]) -> dict:
    chart = tree.folder / "charts" / "gateway"
    return proxies.configuration(tools, proxies.placeholders(1), chart)
