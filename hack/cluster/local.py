"""Local cluster commands other than up and down."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from cluster import images, places, programs, records, requirements
from cluster.plan import CONTROL, NODES
from cluster.settings import Settings
from stack import pids
from tools import resolve
from tools.errors import ToolError


def kubeconfig(settings: Settings) -> Path:
    file = records.kubeconfig(settings.state)
    if not file.exists():
        raise ToolError("no cluster is up: run make cluster-up")
    if not os.access(file, os.R_OK):
        raise ToolError(f"{file} is for root only: use sudo")
    return file


def load(settings: Settings, archives: Iterable[Path]) -> int:
    """Imports archives into both nodes and prints the names that pods may use."""
    requirements.require_user()
    kubeconfig(settings)
    record = records.Record(settings.state)
    for reference in images.load(record, programs.obtain(), archives):
        print(reference.removeprefix("docker.io/library/"))
    return 0


def enter(settings: Settings, name: str, command: list[str]) -> int:
    """Replaces this process with a command in a node's namespaces, with the node's programs on
    PATH."""
    requirements.require_user()
    record = records.Record(settings.state)
    entry = record.content.get("processes", {}).get(name)
    if name not in (CONTROL, *NODES) or not entry or not pids.alive(entry):
        raise ToolError(f"unknown node {name!r}: choose from {CONTROL}, {', '.join(NODES)}")
    if record.content.get("machines") and not command:
        raise ToolError("a node that is a machine has no terminal: name a command")
    argv = [*places.inside(record, name), *(command or ["sh"])]
    environment = {**os.environ, **programs.obtain().environment()}
    os.execvpe(argv[0], argv, environment)


def status(settings: Settings) -> int:
    """Shows every component; fails unless all are running."""
    entries = records.Record(settings.state).content.get("processes", {})
    if not entries:
        print("No cluster is up.")
        return 1
    lives = {name: pids.alive(entry) for name, entry in entries.items()}
    for name, alive in lives.items():
        print(f"  {name:<32} {'runs, pid ' + str(entries[name]['pid']) if alive else 'ENDED'}")
    if not all(lives.values()):
        print(f"Logs: {settings.state / 'logs'}. To stop it: make cluster-down")
        return 1
    return show(kubeconfig(settings))


def show(file: Path) -> int:
    kubectl = resolve.tool("kubectl")
    argv = [str(kubectl), "get", "nodes,pods", "--all-namespaces", "--output", "wide"]
    environment = {**os.environ, "KUBECONFIG": str(file)}
    return subprocess.run(argv, env=environment, check=False).returncode
