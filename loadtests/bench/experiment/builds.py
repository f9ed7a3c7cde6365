"""The programs under measurement: obtained, built, and their versions."""

import os
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from local.settings import REPOSITORY
from tools import cache, command, progress, resolve, table, versions

SERVICES = REPOSITORY / "services"
BENCH = REPOSITORY / "loadtests" / "bench"

TRAINED = SERVICES / "target" / "pgo" / "release" / "corelane-server"
"""What `make pgo` builds."""

FRAMEWORKS = {"may_minihttp", "hyper", "actix-web", "ntex", "axum"}
"""The peers that are Rust libraries; each is named like its package."""


@dataclass(frozen=True)
class Programs:
    """Where everything that runs in a benchmark is."""

    server: Path
    nginx: Path | None
    peers: Path
    """The folder of the generator, the floor and the frameworks' servers."""

    @property
    def trained(self) -> Path | None:
        """corelane-server built with the profile of its own load, if it was."""
        return TRAINED if TRAINED.is_file() else None

    @property
    def generator(self) -> Path:
        """The load generator."""
        return self.peers / "load-generator"


def obtain(names: set[str], server: Path | None, profile: str) -> Programs:
    """Builds what the servers `names` take; `server` is another build of corelane-server."""
    packages = ["load-generator"]
    packages += ["floor"] if "floor" in names else []
    packages += ["frameworks"] if FRAMEWORKS & names else []
    return Programs(
        server=server or build(SERVICES, ["corelane-server"], profile) / "corelane-server",
        nginx=resolve.ensure(["nginx"])["nginx"] if "nginx" in names else None,
        peers=build(BENCH, packages, profile),
    )


def build(workspace: Path, packages: list[str], profile: str) -> Path:
    """Builds packages of a workspace; the folder of their programs."""
    argv = ["cargo", "build", "--locked", "--profile", profile]
    argv += [argument for package in packages for argument in ("-p", package)]
    log = cache.log(f"build-{packages[-1]}")
    log.unlink(missing_ok=True)
    with progress.step("build", " ".join(argv), log):
        command.run(argv, log, failure=f"{', '.join(packages)}: no build", cwd=workspace)
    target = workspace / (os.environ.get("CARGO_TARGET_DIR") or "target")
    return target.resolve() / ("debug" if profile == "dev" else profile)


def describe(programs: Programs, names: set[str]) -> dict[str, str]:
    """The versions of the servers and of what they are built with."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    ours, theirs = locked(SERVICES), locked(BENCH)
    found = {"rustc": rustc.stdout.split()[1], "corelane": ours["corelane"]}
    found |= {f"{name} in corelane": ours[name] for name in ("hyper", "tokio")}
    found |= {name: theirs[name] for name in sorted(FRAMEWORKS & names)}
    found["tokio in the peers"] = theirs["tokio"]
    if programs.nginx:
        found["nginx"] = versions.remembered(programs.nginx, table.find("nginx"))
    return found


def locked(workspace: Path) -> dict[str, str]:
    """The locked versions by package; of a package that is locked twice, the newer."""
    packages = tomllib.loads((workspace / "Cargo.lock").read_text())["package"]
    return {package["name"]: package["version"] for package in packages}
