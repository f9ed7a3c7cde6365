"""Runs kubectl, Helm, hack/cluster and hack/images."""

import os
import subprocess
import sys
from pathlib import Path

from deploy import settings
from tools import resolve
from tools.errors import ToolError


def ours(package: str, *arguments: str | Path) -> str:
    """Runs `python3 hack/PACKAGE`, whose stderr is shown; returns its output."""
    argv = [sys.executable, settings.REPOSITORY / "hack" / package, *arguments]
    result = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(
            f"hack/{package} {arguments[0]} failed (exit {result.returncode}), see above"
        )
    return result.stdout


def kubeconfig() -> Path:
    """The kubeconfig of the cluster that CLUSTER selects."""
    return Path(ours("cluster", "kubeconfig").strip())


def tool(name: str, *arguments: str | Path, stdin: str | None = None) -> str:
    """Runs a tool on the cluster; returns its output."""
    result = subprocess.run(
        [resolve.ensure([name])[name], *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig())},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise ToolError(f"{name} {arguments[0]} failed:\n{result.stderr.strip()}")
    return result.stdout
