"""Runs kubectl, Helm, hack/cluster and hack/images."""

import subprocess
import sys
from pathlib import Path

from deploy import settings
from tools import command, resolve
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


def tool(name: str, *arguments: str | Path, stdin: str = "") -> str:
    """Runs a tool on the cluster; returns its output."""
    argv = [resolve.ensure([name])[name], *arguments]
    return command.output(argv, env={"KUBECONFIG": str(kubeconfig())}, stdin=stdin)
