"""Obtains the tools and builds the server at the same time."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local import settings
from local.settings import REPOSITORY
from tools import command, progress, resolve
from tools.errors import ToolError

TOOLS = ("envoy", "prometheus", "supervisord")
SERVICES = REPOSITORY / "services"

PROGRESS = {"CARGO_TERM_PROGRESS_WHEN": "always", "CARGO_TERM_PROGRESS_WIDTH": "100"}
"""Cargo writes how far it is, although its output is a file."""


def prepare(run: Path) -> dict[str, Path]:
    """Returns the programs by name: the tools and the server."""
    if not shutil.which("cargo"):
        raise ToolError("cargo is not on PATH: install Rust (README, section Requirements)")
    with ThreadPoolExecutor() as pool:
        tools = pool.submit(resolve.ensure, TOOLS)
        server = pool.submit(build_server, run, settings.profile())
        return {**tools.result(), "server": server.result()}


def build_server(run: Path, profile: str) -> Path:
    """The server, built with a cargo profile; the log goes into the folder `run`."""
    log = run / "build.log"
    log.unlink(missing_ok=True)
    argv = ["cargo", "build", "--profile", profile, "--locked"]
    # As tests build all programs: alone it would take fewer features of what it depends on, and that would be built
    # once more.
    argv += ["--workspace", "--bins"] if profile == "dev" else ["-p", "corelane-server"]
    with progress.step("server", " ".join(argv), log):
        command.run(argv, log, failure="the server does not build", cwd=SERVICES, env=PROGRESS)
    target = os.environ.get("CARGO_TARGET_DIR")
    # Cargo's names: the folder of the profile dev is `debug`.
    folder = "debug" if profile == "dev" else profile
    return (SERVICES / (target or "target")).resolve() / folder / "corelane-server"
