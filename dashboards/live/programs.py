"""The programs of a stage: tools, and what is built of this repository."""

import os
import subprocess
from pathlib import Path

from local import settings
from stack import REPOSITORY, apiserver
from tools import resolve
from tools.errors import ToolError

TOOLS = ("helm", "envoy", "prometheus", "supervisord", "k6", "openssl")
SERVICES = REPOSITORY / "services"
BUILT = {"server": "corelane-server", "gateway-agent": "gateway-agent", "node-tuner": "node-tuner"}


def obtain(kubernetes: bool) -> dict[str, Path]:
    """Programs by name. from BINARIES, a folder, or built by cargo."""
    tools = resolve.ensure([*TOOLS, *(apiserver.PROGRAMS if kubernetes else ())])
    folder = os.environ.get("BINARIES")
    built = Path(folder).resolve() if folder else _build()
    programs = {name: built / file for name, file in BUILT.items()}
    missing = [str(program) for program in programs.values() if not os.access(program, os.X_OK)]
    if missing:
        raise ToolError(f"BINARIES={folder}: there is no {', '.join(missing)}")
    return {**tools, **programs}


def _build() -> Path:
    """An unoptimised build unless PROFILE is set."""
    profile = settings.profile() if os.environ.get("PROFILE") else "dev"
    argv = ["cargo", "build", "--profile", profile, "--locked", "--quiet"]
    argv += [word for package in BUILT.values() for word in ("-p", package)]
    if subprocess.run(argv, cwd=SERVICES, check=False).returncode != 0:
        raise ToolError("the services do not build: see cargo's output above")
    target = os.environ.get("CARGO_TARGET_DIR") or "target"
    # Cargo's names: the folder of the profile dev is `debug`.
    return (SERVICES / target).resolve() / ("debug" if profile == "dev" else profile)
