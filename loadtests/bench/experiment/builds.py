"""Obtains and builds the measured programs, and records their versions."""

import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stack import REPOSITORY
from tools import cache, command, progress, resolve
from tools.errors import ToolError

SERVICES = REPOSITORY / "services"
BENCH = REPOSITORY / "loadtests" / "bench"


@dataclass(frozen=True)
class Programs:
    server: Path = Path()
    peers: Path = Path()
    """Folder of the generator, and of other programs built from loadtests/bench."""
    tools: dict[str, Path] = field(default_factory=dict)

    @property
    def generator(self) -> Path:
        return self.peers / "load-generator"


def obtain(server: Path | None, profile: str, *peers: str, tools: Iterable[str] = ()) -> Programs:
    """Builds server, generator and peers, and obtains tools. `server` replaces the build of
    corelane-server.
    """
    return Programs(
        server or build(["corelane-server"], profile) / "corelane-server",
        build(["load-generator", *peers], profile),
        resolve.ensure(tools),
    )


def build(packages: list[str], profile: str, *options: str) -> Path:
    argv = ["cargo", "build", "--locked", "--profile", profile]
    argv += [argument for package in packages for argument in ("-p", package)]
    argv += options
    log = cache.log(f"build-{packages[-1]}")
    log.unlink(missing_ok=True)
    with progress.step("build", " ".join(argv), log):
        command.run(argv, log, failure=f"{', '.join(packages)}: no build", cwd=SERVICES)
    target = SERVICES / (os.environ.get("CARGO_TARGET_DIR") or "target")
    return target.resolve() / ("debug" if profile == "dev" else profile)


def describe() -> dict[str, str]:
    """Versions of the compiler and of everything else that determines the servers' speed."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    versions = locked()
    return {"rustc": rustc.stdout.split()[1]} | {
        name: versions[name] for name in ("corelane", "hyper", "tokio")
    }


def locked() -> dict[str, str]:
    """Locked versions by package; the newer one if a package is locked twice."""
    packages = tomllib.loads((SERVICES / "Cargo.lock").read_text())["package"]
    return {package["name"]: package["version"] for package in packages}


def kept(name: str, sources: Iterable[Path], with_what: str, make: Callable[[Path], None]) -> Path:
    """Folder of `name` for these sources and this compiler, created if missing."""
    files = sorted(sources)
    content = [part for file in files for part in (file.name, file.read_bytes())]
    folder = cache.root() / "bench" / f"{name}-{cache.key(with_what, *content)}"
    with cache.lock(f"bench-{name}"):
        if not folder.exists():
            fresh = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            make(fresh)
            os.rename(fresh, folder)
    return folder


def run(
    name: str, argv: list[str], folder: Path, environment: dict[str, str] | None = None
) -> None:
    """Runs a build in a folder and prints a progress line."""
    log = cache.log(f"bench-{name}")
    log.unlink(missing_ok=True)
    with progress.step("build", f"{name}: {' '.join(argv[:2])}", log):
        command.run(argv, log, failure=f"{name}: no build", cwd=folder, env=environment)


def version_of(argv: list[str], what_for: str) -> str:
    """Version printed by a compiler on PATH."""
    if not shutil.which(argv[0]):
        raise ToolError(f"{argv[0]} is not on PATH: it builds {what_for}")
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[0]
