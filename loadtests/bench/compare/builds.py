"""What is compared: the server and the gateway of each tree, and one load generator for both."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.compare.trees import PLACE, Tree
from loadtests.bench.gateway import shipped
from loadtests.bench.gateway.shipped import Endpoint
from local.settings import REPOSITORY
from tools import cache, command, progress, resolve
from tools.errors import ToolError

SERVER = "corelane-server"

KEPT = 12
"""Builds of the server that are kept, the newest. Each has about 50 MB."""

ANY = Endpoint(port=1, admin_port=2)
"""A placeholder for the replica in a gateway's configuration until there is one."""


@dataclass(frozen=True)
class Build:
    """One of the two."""

    name: str
    """`base` or `head`."""
    title: str
    server: Path
    envoy: Path | None
    """None when nothing is measured through the gateway."""
    gateway: dict | None
    """Envoy's configuration, as the tree's chart renders it with its default values."""


def same(base: Build, head: Build) -> bool:
    """Whether both are the same to the byte."""
    return base.server.read_bytes() == head.server.read_bytes() and (base.gateway, base.envoy) == (
        head.gateway,
        head.envoy,
    )


def build(
    name: str, tree: Tree, program: Path | None, profile: str, *, through_gateway: bool
) -> Build:
    """Builds what a tree has; `program` is another build of its server."""
    found = program or _server(name, tree, profile)
    tools = _tools(tree) if through_gateway else {}
    return Build(
        name=name,
        title=tree.title + (f", with another server: {program.name}" if program else ""),
        server=_placed(name, found),
        envoy=tools.get("envoy"),
        gateway=_rendered(tree, tools) if through_gateway else None,
    )


def _placed(name: str, program: Path) -> Path:
    """A copy whose path is as long as the other's. The stack before main shifts everything after it, which
    can make a program faster or slower (Mytkowicz and others, ASPLOS 2009)."""
    place = PLACE / "programs" / name / SERVER
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    shutil.copy2(program, place)
    return place


def _server(name: str, tree: Tree, profile: str) -> Path:
    """The tree's server; one of the same sources that was built before is taken again."""
    content = tree.content("services")
    if content is None:
        return _cargo(name, tree, profile)
    compiler = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    flags = os.environ.get("RUSTFLAGS", "")
    kept = cache.root() / "servers" / cache.key(content, profile, compiler, flags) / SERVER
    if kept.exists():
        progress.say(name, "the server of these sources was built before")
        kept.parent.touch()
        return kept
    built = _cargo(name, tree, profile)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as beside:
        os.replace(shutil.copy2(built, beside), kept)
    _forget_oldest(kept.parent.parent)
    return kept


def _cargo(name: str, tree: Tree, profile: str) -> Path:
    """Builds the server. Base's has a target folder that outlives its tree, with all dependencies."""
    target = tree.folder / "services" / "target" if name == "head" else PLACE / "target"
    argv = ["cargo", "build", "--locked", "--profile", profile, "-p", SERVER]
    log = cache.log(f"compare-{name}")
    log.unlink(missing_ok=True)
    with progress.step(name, " ".join(argv), log):
        environment = {"CARGO_TARGET_DIR": str(target)}
        failure = f"the server of {name} does not build"
        command.run(argv, log, failure=failure, cwd=tree.folder / "services", env=environment)
    return target / ("debug" if profile == "dev" else profile) / SERVER


def _forget_oldest(folder: Path) -> None:
    builds = sorted(folder.iterdir(), key=lambda build: build.stat().st_mtime, reverse=True)
    for old in builds[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _tools(tree: Tree) -> dict[str, Path]:
    """What renders and runs the gateway; Envoy is the one that the tree names."""
    tools = resolve.ensure(["helm", "supervisord"])
    if tree.folder == REPOSITORY:
        return tools | resolve.ensure(["envoy"])
    argv = [sys.executable, str(tree.folder / "hack" / "tools"), "path", "envoy"]
    found = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        raise ToolError("the Envoy that base names cannot be obtained; it says why above")
    return tools | {"envoy": Path(found.stdout.strip())}


def _rendered(tree: Tree, tools: dict[str, Path]) -> dict:
    return shipped.configuration(tools, [ANY], tree.folder / "charts" / "gateway")
