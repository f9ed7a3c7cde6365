"""`up`: obtains the tools, builds the server, starts all processes and waits until they are ready."""

import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local import database, down, ports, processes, ready, render, settings, supervisor, topology
from local.settings import REPOSITORY
from local.topology import HOST, Topology
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
    argv += ["--bins"] if profile == "dev" else ["-p", "corelane-server"]
    with progress.step("server", " ".join(argv), log):
        command.run(argv, log, failure="the server does not build", cwd=SERVICES, env=PROGRESS)
    target = os.environ.get("CARGO_TARGET_DIR")
    # Cargo's names: the folder of the profile dev is `debug`.
    folder = "debug" if profile == "dev" else profile
    return (SERVICES / (target or "target")).resolve() / folder / "corelane-server"


KEPT = ("prometheus-data", "build.log", "lock", "token", *database.KEPT)


def main(run: Path) -> int:
    """Starts the instance, unless it is up."""
    # SIGTERM unwinds like an interrupt, so that an aborted start leaves nothing.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with processes.lock(run):
        if _is_up(run):
            return 0
        plan = topology.plan(settings.load())
        ports.require_free(plan)
        programs = prepare(run)
        _clear(run)
        render.render(plan, programs, run)
        # The builds may have taken minutes.
        ports.require_free(plan)
        _start(plan, programs, run)
        print("Corelane is up.")
        print(describe(plan, run))
    return 0


def _is_up(run: Path) -> bool:
    found = processes.find(run)
    if not found:
        return False
    running = topology.read(run)
    if supervisor.pid(run) is None or running is None:
        names = ", ".join(f"{processes.name(pid)} (pid {pid})" for pid in found)
        raise ToolError(f"an incomplete earlier run left {names}: run make down first")
    print("Corelane is already up.")
    print(describe(running, run))
    return True


def _clear(run: Path) -> None:
    """Removes the files of an earlier run, except for recorded and saved data."""
    for entry in run.iterdir():
        if entry.name not in KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _start(plan: Topology, programs: dict[str, Path], run: Path) -> None:
    try:
        supervisor.start(programs["supervisord"], run, processes.make(run, programs["server"]))
        ready.wait(plan, run)
        topology.save(plan, run)
        # Everything is up: a signal must no longer stop it.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except BaseException:
        down.stop(run)
        raise


def describe(plan: Topology, run: Path) -> str:
    """The addresses, and commands to try."""
    instance_name = os.environ.get("INSTANCE")
    suffix = f" INSTANCE={instance_name}" if instance_name else ""
    gateway = f"http://{HOST}:{plan.gateway_port}"
    lines = [
        "",
        f"  gateway        {gateway}",
        f"  gateway stats  http://{HOST}:{plan.gateway_stats_port}/stats/prometheus",
        f"  Envoy admin    http://{HOST}:{plan.envoy_admin_port}/clusters",
        f"  Prometheus     http://{HOST}:{plan.prometheus_port}/api/v1/targets",
    ]
    for replica in plan.replicas:
        lines.append(
            f"  {replica.name:<14} http://{HOST}:{replica.port}"
            f"  (CPU {replica.cpu}; lanes: http://{HOST}:{replica.admin_port}/lanes)"
        )
    lines += [f"  projects       {database.describe(plan, run)}"]
    lines += [
        "",
        "Try:",
        f"  for i in 1 2 3 4; do curl -s {gateway}/; done  # the replies name the replicas",
        f"  curl -i {gateway}/div/4",
        *_try_projects(plan, run),
        f"  make status{suffix}",
        f"  make logs{suffix} NAME=gateway",
        f"  make down{suffix}",
    ]
    return "\n".join(lines)


def _try_projects(plan: Topology, run: Path) -> list[str]:
    """A command that saves a project, with the token of this instance."""
    if plan.database == "none":
        return []
    return [
        f'  curl -i http://{HOST}:{plan.gateway_port}/projects --json \'{{"name": "First"}}\' \\',
        f'    -H "Authorization: Bearer $(cat {render.clear_token(run)})"',
    ]
