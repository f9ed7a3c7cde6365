"""What can be set from outside, and the defaults."""

import os
from pathlib import Path

from tools.errors import ToolError

REPOSITORY = Path(__file__).resolve().parent.parent.parent

VARIABLES = ("CLUSTER", "NAMESPACE", "RELEASE", "VALUES")


def cluster() -> str:
    """Which cluster: `local`, `kind` or `current`."""
    return os.environ.get("CLUSTER") or "local"


def namespace() -> str:
    """Where the release is."""
    return os.environ.get("NAMESPACE") or "corelane"


def release() -> str:
    """The name of the release."""
    return os.environ.get("RELEASE") or "corelane"


def values() -> list[Path]:
    """The values files of the umbrella chart: VALUES, else those of the cluster that we made."""
    given = [Path(name) for name in os.environ.get("VALUES", "").split(",") if name]
    for file in given:
        if not file.is_file():
            raise ToolError(f"VALUES names {file}, which is no file")
    if cluster() == "current" and not given:
        raise ToolError(
            "CLUSTER=current takes VALUES=FILE,...: values of charts/corelane that say where the "
            "images are (global.imageRegistry) and what suits the cluster"
        )
    if given:
        return given
    return [REPOSITORY / "hack" / "cluster" / "values.yaml"]
