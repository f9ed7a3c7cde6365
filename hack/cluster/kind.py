"""CLUSTER=kind: the same commands on a kind cluster, which needs a Docker engine."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from cluster import plan
from cluster.settings import FOLDER
from tools import cache, resolve
from tools.errors import ToolError

NAME = "corelane"

CPUS = 4
"""Two CPUs per worker, because the pods of kind's network request part of one."""


def kubeconfig() -> Path:
    """The kubeconfig that kind writes; the user's own kubeconfig does not change."""
    return cache.root() / "kind" / "kubeconfig"


def up() -> int:
    if NAME in _clusters():
        print(f"kind's cluster {NAME} is up already.\n\n  export KUBECONFIG={kubeconfig()}")
        return 0
    if len(os.sched_getaffinity(0)) < CPUS:
        raise ToolError(
            f"CLUSTER=kind needs {CPUS} CPUs: kind's own pods request a part of each worker's, and "
            "the rest must hold a replica. CLUSTER=local needs 2"
        )
    file = kubeconfig().with_name("kind.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(configuration(os.sched_getaffinity(0)))
    _kind("create", "cluster", "--config", file, "--kubeconfig", kubeconfig(), "--wait", "3m")
    print(f"\n  export KUBECONFIG={kubeconfig()}")
    return 0


def down() -> int:
    if NAME not in _clusters():
        print(f"No cluster {NAME} of kind is up.")
        return 0
    _kind("delete", "cluster", "--name", NAME, "--kubeconfig", kubeconfig())
    return 0


def load(archives: Iterable[Path]) -> int:
    for archive in archives:
        _kind("load", "image-archive", archive, "--name", NAME)
    return 0


def configuration(cpus: Iterable[int]) -> str:
    text = (FOLDER / "kind.yaml").read_text()
    cpus = frozenset(cpus)
    for number, owned in enumerate(plan.split(cpus), start=1):
        text = text.replace(f"{{reserved-{number}}}", plan.cpu_text(cpus - owned))
    return text


def _clusters() -> list[str]:
    result = _run("get", "clusters", capture_output=True, text=True)
    if result.returncode != 0:
        raise ToolError(f"CLUSTER=kind needs a Docker engine: {result.stderr.strip()}")
    return result.stdout.split()


def _kind(*arguments: object) -> None:
    result = _run(*arguments)
    if result.returncode != 0:
        raise ToolError(f"kind {arguments[0]} {arguments[1]} failed (exit {result.returncode})")


def _run(*arguments: object, **options: object) -> subprocess.CompletedProcess:
    program = resolve.tool("kind")
    return subprocess.run([str(program), *map(str, arguments)], check=False, **options)
