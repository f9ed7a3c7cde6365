"""The variables of the environment, and their defaults."""

import os
from pathlib import Path

from tools.errors import ToolError

REPOSITORY = Path(__file__).resolve().parent.parent.parent

VARIABLES = ("CLUSTER", "NAMESPACE", "RELEASE", "VALUES", "PROFILE")


def cluster() -> str:
    """Which cluster: `local`, `kind` or `current`."""
    return os.environ.get("CLUSTER") or "local"


def namespace() -> str:
    """The namespace of the release."""
    return os.environ.get("NAMESPACE") or "corelane"


def release() -> str:
    """The name of the release."""
    return os.environ.get("RELEASE") or "corelane"


def profile() -> str:
    """The cargo profile of the images' programs; `image` is that of releases."""
    return os.environ.get("PROFILE") or "local"


def values() -> list[Path]:
    """The values files of the umbrella chart: VALUES, by default those of our own cluster."""
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
    return [REPOSITORY / "hack" / "cluster" / "values.yaml"]
