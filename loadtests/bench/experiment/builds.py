"""The programs under measurement: obtained, built, and their versions."""

import os
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from local.settings import REPOSITORY
from tools import cache, command, progress, resolve

SERVICES = REPOSITORY / "services"
BENCH = REPOSITORY / "loadtests" / "bench"

TRAINED = SERVICES / "target" / "pgo" / "release" / "corelane-server"
"""What `make pgo` builds."""


@dataclass(frozen=True)
class Programs:
    """Where everything that runs in a benchmark is."""

    server: Path
    peers: Path
    """The folder of the generator, and of what else is built from loadtests/bench."""
    tools: dict[str, Path] = field(default_factory=dict)
    """By their names in hack/tools."""

    @property
    def generator(self) -> Path:
        """The load generator."""
        return self.peers / "load-generator"


def obtain(server: Path | None, profile: str, *peers: str, tools: Iterable[str] = ()) -> Programs:
    """Builds server, generator and peers, and obtains tools; `server` is another build of corelane-server."""
    return Programs(
        server or build(["corelane-server"], profile) / "corelane-server",
        build(["load-generator", *peers], profile),
        resolve.ensure(tools),
    )


def build(packages: list[str], profile: str, *options: str) -> Path:
    """Builds packages, with more of cargo's options; the folder of their programs."""
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
    """The versions of the compiler, and of what decides the speed of the servers."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    versions = locked()
    return {"rustc": rustc.stdout.split()[1]} | {
        name: versions[name] for name in ("corelane", "hyper", "tokio")
    }


def locked() -> dict[str, str]:
    """The locked versions by package; of a package that is locked twice, the newer."""
    packages = tomllib.loads((SERVICES / "Cargo.lock").read_text())["package"]
    return {package["name"]: package["version"] for package in packages}
