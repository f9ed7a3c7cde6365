"""CLUSTER=current: the cluster of the current kubeconfig, which this does not start or stop."""

import os
from pathlib import Path

from tools.errors import ToolError


def kubeconfig() -> Path:
    """The file that kubectl would read; $KUBECONFIG may list several."""
    text = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    files = [Path(part) for part in text.split(os.pathsep) if part]
    if not any(file.is_file() for file in files):
        raise ToolError(f"CLUSTER=current needs a kubeconfig, and there is none at {text}")
    return Path(text)


def refuse(command: str) -> int:
    """Rejects a command that only our own clusters have."""
    if command == "load":
        raise ToolError(
            "images cannot be loaded into the cluster of the current kubeconfig: push them to a "
            "registry that it reaches, and set the charts' values image.registry and image.tag"
        )
    raise ToolError(
        f"{command}: the cluster of the current kubeconfig is not ours; "
        "leave CLUSTER unset for the local one"
    )
