"""Environment variables, and commands that use them: kubectl, Helm, hack/cluster and hack/images."""

import os
import subprocess
import sys
from pathlib import Path

from stack import REPOSITORY
from tools import command, resolve
from tools.errors import ToolError

VARIABLES = ("CLUSTER", "NAMESPACE", "RELEASE", "VALUES", "PROFILE")


def cluster() -> str:
    return os.environ.get("CLUSTER") or "local"


def namespace() -> str:
    return os.environ.get("NAMESPACE") or "corelane"


def release() -> str:
    return os.environ.get("RELEASE") or "corelane"


def profile() -> str:
    """Cargo profile of the programs in images; `image` is the profile of releases."""
    return os.environ.get("PROFILE") or "local"


def values() -> list[Path]:
    """The umbrella chart's values files: VALUES, or by default the files of our own cluster."""
    given = [Path(name) for name in os.environ.get("VALUES", "").split(",") if name]
    for file in given:
        if not file.is_file():
            raise ToolError(f"VALUES: there is no file {file}")
    if cluster() == "current" and not given:
        raise ToolError(
            "CLUSTER=current needs VALUES=FILE,...: values of charts/corelane for that cluster, with "
            "the registry of the images (global.registry)"
        )
    if given:
        return given
    folder = REPOSITORY / "hack" / "cluster"
    requests = [folder / "values-gateway-requests.yaml"] if cluster() == "vm" else []
    return [folder / "values.yaml", *requests]


def ours(package: str, *arguments: str | Path) -> str:
    """Runs `python3 hack/PACKAGE` with a visible stderr; returns its output."""
    argv = [sys.executable, REPOSITORY / "hack" / package, *arguments]
    result = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(
            f"hack/{package} {arguments[0]} failed (exit {result.returncode}), see above"
        )
    return result.stdout


def kubeconfig() -> Path:
    return Path(ours("cluster", "kubeconfig").strip())


def tool(name: str, *arguments: str | Path, stdin: str = "") -> str:
    argv = [resolve.tool(name), *arguments]
    return command.output(argv, env={"KUBECONFIG": str(kubeconfig())}, stdin=stdin)
